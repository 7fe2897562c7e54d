/** Whoever dies while a trainer holds engines: what has been sent is served, or reaches nobody. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { PolicyBed } from '../harness/policy-bed.js';
import { startPolicyBed } from '../harness/policy-bed.js';
import { isPaused } from '../harness/policy-engines.js';
import { puzzleBatch } from '../harness/recovery-bed.js';
import { post, sendingTrainer } from '../harness/sending-trainer.js';
import { eventually } from '../harness/waiting.js';

describe('while a trainer holds engines', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({
      name: 'transfer-kills',
      own_server: true,
      simulator: { log_tokens: true },
      generation: { wire: 'generate' },
    });
  });
  after(() => bed.end());
  const replicas = async () => Object.values((await bed.record())?.replicas ?? {});
  const currentAt = (version: number): Promise<unknown> =>
    eventually(`every replica at ${version}`, async () =>
      (await replicas()).every((one) => one.state === 'current' && one.version === version),
    );

  test('the worker may be killed between its answers, and while it finishes', async () => {
    const trainer = sendingTrainer(bed);
    const held = await trainer.begin();
    await bed.worker.kill();
    await trainer.send(held);
    await trainer.endSession(held);
    const [engine] = bed.engines;
    await engine!.process().inject({ fault: 'hold', path: '/resume' });
    const finishing = trainer.finish(held);
    await eventually('a final label', async () => {
      const told = (await (await fetch(`${engine!.process().url}/weight_info`)).json()) as {
        weight_version: string;
      };
      return told.weight_version === String(held.version);
    });
    await bed.worker.kill();
    await engine!.process().clearFaults();
    assert.equal((await finishing).version, held.version);
    await currentAt(held.version);
  });

  test('the server may lose its database: the record has the ticket, and a rollout has its labels', async () => {
    const trainer = sendingTrainer(bed);
    const held = await trainer.begin();
    await trainer.send(held);
    await trainer.endSession(held);
    await bed.killServer();
    await bed.loseDatabase();
    await bed.startServer();
    const { version } = await trainer.finish(held);
    await currentAt(version);
    await bed.batch('after').start(puzzleBatch({ samples: 2, repeats: 2, max_rollout_turns: 2 }));
    const { result } = await bed.batch('after').outcome();
    assert.equal(result?.counts.completed, 4);
    const { wrong, labels } = await bed.check('after');
    assert.deepEqual([wrong, Object.keys(labels)], [[], [String(version)]]);
  });

  test('an engine that waits for its sender for ever is only asked, and the others serve', async () => {
    const trainer = sendingTrainer(bed);
    const [first, hung] = bed.engines;
    const held = await trainer.begin({ quorum: 1 });
    const groupOf = (replica: string) => held.engines.find(({ url }) => url === replica)!.group;
    const sent = groupOf(first!.replica);
    await trainer.send(held, { only: [sent] });
    await trainer.endSession(held, [sent]);
    await hung!.process().inject({ fault: 'hang' });
    const { url } = hung!.process();
    await post(`${url}/start_weight_update`);
    const update_info = { weights: { name: 'lost', skill: 1, seed: 1 } };
    const lost = post(`${url}/update_weights`, { update_info }).catch(() => null);
    await trainer.finish(held, [sent]);
    const record = (await bed.record())!;
    assert.equal(record.replicas[first!.replica]?.state, 'current');
    assert.equal(record.replicas[hung!.replica]?.needs, 'load');
    assert.match(record.replicas[hung!.replica]?.fault ?? '', /waits inside a transfer/);
    await bed.batch('beside').start(puzzleBatch({ samples: 2, repeats: 2, max_rollout_turns: 2 }));
    assert.equal((await bed.batch('beside').outcome()).result?.counts.completed, 4);
    await hung!.process().clearFaults();
    await lost;
    await eventually('it is cut off', async () => {
      const entry = (await bed.record())?.replicas[hung!.replica];
      return entry?.needs === 'load' && entry.paused_until === null;
    });
    assert.equal(await isPaused(hung!), true);
    const { version } = await sendingTrainer(bed, { incarnation: 'next' }).transfer();
    await currentAt(version);
  });
});
