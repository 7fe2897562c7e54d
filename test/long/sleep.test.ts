/** Engines sleep and are woken, on a real server, while rollouts run on real simulators. */
import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { Engine } from '../../lab/bed/engine.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { isPaused } from '../../lab/bed/engine.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { post, reasonOf, sendingTrainer } from '../harness/sending-trainer.js';
import { eventually } from '../../lab/bed/waiting.js';

describe('engines that sleep while rollouts are sampled', () => {
  let bed: PolicyBed;
  let version = 1;
  before(async () => {
    bed = await startPolicyBed({
      name: 'sleep',
      simulator: { log_tokens: true },
      generation: { wire: 'generate' },
    });
    await bed.publish(await bed.weights(version));
  });
  after(() => bed.end());

  const replicas = async () => Object.values((await bed.record())?.replicas ?? {});
  const states = async (): Promise<string[]> => (await replicas()).map(({ state }) => state);
  const allServe = (): Promise<unknown> =>
    eventually(`every replica at ${version}`, async () =>
      (await replicas()).every((one) => one.state === 'current' && one.version === version),
    );
  const comes = (id: string, tokens: number): Promise<unknown> =>
    eventually(`${tokens} tokens`, async () => {
      const report = await bed.check(id).catch(() => null);
      return (report?.tokens ?? 0) >= tokens;
    });
  const begins = async (id: string, samples = 4): Promise<void> => {
    await bed.batch(id).start(puzzleBatch({ samples, repeats: 2, max_rollout_turns: 3 }));
    await comes(id, 60);
  };
  const outcome = async (id: string, rollouts = 8) => {
    const { result } = await bed.batch(id).outcome();
    assert.equal(result?.counts.completed, rollouts);
    const report = await bed.check(id);
    assert.deepEqual(report.wrong, []);
    assert.deepEqual([report.turns_generated_twice, report.unlabelled], [0, 0]);
    return report;
  };
  const sleeps = async ({ process }: Engine): Promise<boolean> => {
    const text = await (await fetch(`${process().url}/metrics`)).text();
    return /sleep_state="awake"[^\n]* 0/.test(text);
  };
  const asked = async ({ process }: Engine): Promise<number> => await process().runningRequests();

  test('are asked nothing, and rollouts go on after their last token once they are awake', async () => {
    const trainer = sendingTrainer(bed);
    const id = 'dropped';
    await begins(id);
    const answer = await trainer.sleep({ level: 2 });
    assert.deepEqual(Object.values(answer.replicas), [{ state: 'asleep' }, { state: 'asleep' }]);
    for (const engine of bed.engines)
      assert.deepEqual([await sleeps(engine), await asked(engine)], [true, 0]);
    await eventually({ what: 'a rollout that says why it waits', timeout_ms: 60_000 }, async () => {
      const { waiting } = await bed.batch(id).progress();
      return JSON.stringify(waiting ?? null).includes('has put them to sleep');
    });
    const { replicas: woken } = await trainer.wake();
    assert.deepEqual(Object.values(woken), [{ state: 'current' }, { state: 'current' }]);
    for (const engine of bed.engines)
      assert.deepEqual([await sleeps(engine), await isPaused(engine)], [false, false]);
    const { labels } = await outcome(id);
    assert.deepEqual(Object.keys(labels), [String(version)]);
  });

  test('may be begun with, and a batch starts while all of them sleep, whose rollout_timeout does not run', async () => {
    const trainer = sendingTrainer(bed);
    await trainer.sleep({ level: 2 });
    const began = Date.now();
    const request = puzzleBatch({ samples: 3, repeats: 2, max_rollout_turns: 2 });
    await bed.batch('asleep').start({ ...request, rollout_timeout: '15s' });
    await eventually('all of them to wait', async () => {
      const { waiting } = await bed.batch('asleep').progress();
      return waiting?.rollouts === 6 && waiting.message.includes('has put them to sleep');
    });
    await pause(Math.max(0, began + 17_000 - Date.now()));
    await trainer.wake();
    await trainer.wake();
    await outcome('asleep', 6);
  });

  test('are refused to others by the name of who has put them to sleep', async () => {
    const trainer = sendingTrainer(bed, { incarnation: 'sleeper' });
    await trainer.sleep();
    const other = sendingTrainer(bed, { name: 'ppo' });
    const whose =
      /"grpo" \(incarnation "sleeper"\) has put the engines to sleep \(level 1\), at most until .*: `wake` ends that/;
    assert.match(await reasonOf(other.begin()), whose);
    assert.match(await reasonOf(other.sleep()), whose);
    assert.match(await reasonOf(bed.publish(await bed.weights(version + 1))), whose);
    assert.match(
      await reasonOf(trainer.sleep({ level: 2 })),
      /level: expected 1, at which they sleep already, got 2/,
    );
    const { record } = await bed.status();
    assert.equal(record?.sleep?.holder.name, 'grpo');
    await trainer.wake();
    const held = await other.begin();
    assert.match(await reasonOf(trainer.sleep()), /"ppo" .* has the engines/);
    await other.abandon(held, []);
    await other.release();
    await allServe();
  });

  test('are woken by themselves after the time that their holder has asked for', async () => {
    await begins('forgotten', 3);
    await sendingTrainer(bed, { incarnation: 'killed' }).sleep({ level: 2, until: '2s' });
    await allServe();
    await outcome('forgotten', 6);
    assert.equal((await bed.record())?.sleep, null);
  });

  test('take weights that a trainer sends, sleep again where it gives up, and serve them where it does not', async () => {
    const trainer = sendingTrainer(bed);
    await begins('sent', 3);
    await trainer.sleep({ level: 2 });
    const given_up = await trainer.begin();
    await trainer.send(given_up, { last: 0 });
    await trainer.abandon(given_up, [0]);
    assert.deepEqual(await states(), ['asleep', 'asleep']);
    for (const engine of bed.engines) assert.equal(await sleeps(engine), true);
    const result = await trainer.transfer();
    version = result.version;
    assert.deepEqual(Object.values(result.replicas), [{ state: 'current' }, { state: 'current' }]);
    const { labels } = await outcome('sent', 6);
    assert.ok(Object.keys(labels).includes(String(version)), JSON.stringify(labels));
    assert.equal((await bed.record())?.sleep, null);
  });

  test('keep weights of which there are no files at level 1, and wait for some at level 2', async () => {
    const trainer = sendingTrainer(bed);
    await trainer.sleep({ level: 1 });
    await trainer.wake();
    await allServe();
    await trainer.sleep({ level: 2 });
    const { replicas: woken } = await trainer.wake();
    for (const one of Object.values(woken))
      assert.deepEqual([one.state, one.needs], ['unknown', 'load']);
    const { weights } = await bed.weights(version);
    await trainer.attach({ version, checkpoint: weights.path });
    await allServe();
  });

  test('that were started again meanwhile are loaded whole', async () => {
    await begins('restarted', 3);
    const trainer = sendingTrainer(bed);
    await trainer.sleep({ level: 1 });
    const [first] = bed.engines;
    await first!.kill();
    await first!.start();
    await trainer.wake();
    await allServe();
    await outcome('restarted', 6);
  });

  test('of which one cannot are all woken', async () => {
    const trainer = sendingTrainer(bed);
    await bed.engines[1]!.process().inject({ fault: '503', path: '/sleep', times: 20 });
    assert.match(
      await reasonOf(trainer.sleep({ level: 2 })),
      /not every engine could be put to sleep, so all are woken: .*503/,
    );
    await bed.engines[1]!.process().clearFaults();
    await allServe();
  });

  test('that somebody else has woken are found', async () => {
    await sendingTrainer(bed).sleep({ level: 2 });
    await post(`${bed.engines[0]!.process().url}/wake_up`);
    await sendingTrainer(bed).wake();
    await allServe();
    await begins('after');
    await outcome('after');
  });
});
