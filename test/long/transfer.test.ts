/** A trainer sends weights itself, on a real server, while rollouts run on real simulators. */
import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { parseLine } from '../../src/model/journal.js';
import { textsInFolder } from '../../lab/bed/journal-texts.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { isPaused } from '../../lab/bed/engine.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { askPolicy, reasonOf, sendingTrainer } from '../harness/sending-trainer.js';
import { eventually } from '../../lab/bed/waiting.js';

describe('weights that a trainer sends itself', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({
      name: 'transfer',
      simulator: { log_tokens: true },
      generation: { wire: 'generate' },
    });
  });
  after(() => bed.end());
  const labelsOf = async (id: string, rollouts: number) => {
    const { result } = await bed.batch(id).outcome();
    assert.equal(result?.counts.completed, rollouts);
    const report = await bed.check(id);
    assert.deepEqual(report.wrong, []);
    return report;
  };
  const currentAt = (version: number): Promise<unknown> =>
    eventually(`every replica at ${version}`, async () => {
      const entries = Object.values((await bed.record())?.replicas ?? {});
      return (
        entries.length > 0 &&
        entries.every((one) => one.state === 'current' && one.version === version)
      );
    });

  test('reach every engine under the next number, and tokens have the version that sampled them', async () => {
    const trainer = sendingTrainer(bed);
    const first = await trainer.transfer();
    assert.equal(first.version, 1);
    assert.deepEqual(Object.values(first.replicas), [{ state: 'current' }, { state: 'current' }]);
    await bed
      .batch('two-versions')
      .start(puzzleBatch({ samples: 6, repeats: 2, max_rollout_turns: 4 }));
    await eventually('tokens in a journal', async () => {
      const report = await bed.check('two-versions').catch(() => null);
      return (report?.tokens ?? 0) > 100;
    });
    const second = await trainer.transfer();
    assert.equal(second.version, 2);
    const { labels, unlabelled } = await labelsOf('two-versions', 12);
    assert.equal(unlabelled, 0);
    assert.deepEqual(Object.keys(labels).sort(), ['1', '2']);
  });

  test('that move nothing are found', async () => {
    const trainer = sendingTrainer(bed);
    const held = await trainer.begin();
    const why = await reasonOf(trainer.finish(held));
    assert.match(why, /probe: the weights did not change/);
    for (const engine of bed.engines) assert.equal(await isPaused(engine), true);
    const { replicas } = await bed.status().then(({ record }) => record!);
    assert.deepEqual(
      Object.values(replicas).map(({ state, needs }) => [state, needs]),
      [
        ['unknown', 'load'],
        ['unknown', 'load'],
      ],
    );
  });

  test('of a trainer that was killed halfway reach nobody, and its successor repairs the engines', async () => {
    await bed.batch('killed').start(puzzleBatch({ samples: 4, repeats: 2, max_rollout_turns: 3 }));
    const lost = sendingTrainer(bed, { incarnation: 'lost' });
    const held = await lost.begin();
    await lost.send(held, { last: 0 });
    assert.match(
      await reasonOf(bed.publish(await bed.weights(held.version + 1))),
      /"grpo" \(incarnation "lost"\) has the engines/,
    );
    const heir = sendingTrainer(bed, { incarnation: 'heir' });
    const { version } = await heir.transfer();
    assert.match(await reasonOf(lost.finish(held)), /was superseded: incarnation "heir" has begun/);
    assert.match(
      await reasonOf(lost.begin()),
      /holder: "grpo" \(incarnation "lost"\) was superseded/,
    );
    await currentAt(version);
    const { labels } = await labelsOf('killed', 8);
    assert.ok(
      Object.keys(labels).every((label) => label === String(version)),
      JSON.stringify(labels),
    );
  });

  test('are repaired from files where their trainer falls silent', async () => {
    const trainer = sendingTrainer(bed, { incarnation: 'silent', name: 'grpo' });
    const { version } = (await bed.record())!;
    const published = await bed.weights((version ?? 0) + 1);
    const held = await trainer.begin({ checkpoint: published.weights.path, stall_limit: '2s' });
    await trainer.send(held, { last: 0 });
    await currentAt(held.version);
    assert.match(await reasonOf(trainer.finish(held)), /is void: stall_limit is over/);
  });

  test('are loaded from attached files by an engine that died', async () => {
    const trainer = sendingTrainer(bed, { incarnation: 'attaching' });
    const { version } = await trainer.transfer();
    const [engine] = bed.engines;
    await engine!.kill();
    await engine!.start();
    await bed.batch('revived').start(puzzleBatch({ samples: 3, repeats: 2, max_rollout_turns: 2 }));
    const { weights } = await bed.weights(version);
    await trainer.attach({ version, checkpoint: weights.path });
    await labelsOf('revived', 6);
    await currentAt(version);
  });

  test(
    'go on without an engine that leaves, whose streams continue elsewhere, and reach it once it joins again',
    { timeout: 120_000 },
    async () => {
      const trainer = sendingTrainer(bed, { incarnation: 'beside-leave' });
      await trainer.transfer();
      const [stays, leaves] = bed.engines;
      const url = leaves!.replica;
      const paced = (tokens_per_second: number) =>
        Promise.all(bed.engines.map((one) => one.process().change({ tokens_per_second })));
      // None of them ends before the engines are held, however slow this machine is.
      await paced(2);
      await bed.batch('leave').start(puzzleBatch({ samples: 4, repeats: 2, max_rollout_turns: 3 }));
      // Planning has asked the engines, too, and a stream whose tokens have no label yet goes on elsewhere.
      await eventually('labelled tokens of all streams, some of them there', async () => {
        const texts = [...(await textsInFolder(bed.journals('leave'))).values()];
        const labelled = texts.map((text) =>
          text.split('\n').flatMap((line) => {
            const parsed = parseLine(line);
            return parsed?.kind === 'chunk' && parsed.version_source !== 'pending' ? [parsed] : [];
          }),
        );
        const isThere = labelled.some((chunks) => chunks.at(-1)?.replica === url);
        return texts.length === 8 && labelled.every((chunks) => chunks.length > 0) && isThere;
      });
      const held = await trainer.begin();
      await paced(200);
      assert.ok((await leaves!.process().runningRequests()) > 0, 'its streams are frozen');
      await trainer.send(held, { last: 0 });
      await askPolicy(bed, (client) => client.update('leave', { url }));
      const group = held.engines.find((one) => one.url === stays!.replica)!.group;
      await trainer.send(held, { first: 1, only: [group] });
      await trainer.endSession(held, [group]);
      const { version, replicas } = await trainer.finish(held, [group]);
      assert.equal(replicas[stays!.replica]?.state, 'current');
      // Its streams were frozen for the transfer, and nobody resumes it.
      await labelsOf('leave', 8);
      assert.equal((await bed.record())?.replicas[url]?.version, version - 1);
      await askPolicy(bed, (client) => client.update('join', { url }));
      const next = await trainer.transfer();
      await currentAt(next.version);
      for (const engine of bed.engines) assert.equal(await isPaused(engine), false);
    },
  );
});
