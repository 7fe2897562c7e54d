import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Row } from '../../src/model/results/row.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { assertComplete } from '../harness/row-comparison.js';
import type { Engine } from '../../lab/bed/engine.js';
import { countCompletions } from '../../lab/bed/simulator.js';
import type { Stack } from '../../lab/bed/stack.js';
import { startStack } from '../../lab/bed/stack.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const TASK_QUEUE = 'replicas';
const SIZE = { samples: 8, repeats: 2 };
const REQUEST = puzzleRequest({ samples: SIZE.samples, num_repeats: SIZE.repeats });

const replicasOf = ({ segments }: Row): string[] => [
  ...new Set(segments.map(({ replica }) => replica)),
];
const allReplicas = ({ rollouts }: BatchOutcome): string[] =>
  [...new Set(rollouts.flatMap(replicasOf))].sort();

/** Some turns go to the other one, where one has more to do. A choice by lot at each turn would keep one rollout of 16. */
const assertMostStay = ({ rollouts }: BatchOutcome): void => {
  const stayed = rollouts.filter((row) => replicasOf(row).length === 1);
  assert.ok(stayed.length >= rollouts.length / 4, `${stayed.length} of ${rollouts.length}`);
};

describe('a batch on two replicas', () => {
  let stack: Stack;
  let worker: WorkerProcess;
  let a: Engine;
  let b: Engine;

  before(async () => {
    stack = await startStack({
      name: 'replicas',
      replicas: 2,
      simulator: { tokens_per_second: 100 },
    });
    [a, b] = stack.engines as [Engine, Engine];
    worker = await stack.startWorker({
      task_queue: TASK_QUEUE,
      worker: { heartbeat_timeout: '2s', turn_slice: '500ms' },
    });
  });
  // If `before` failed, it is missing.
  after(() => (stack as Stack | undefined)?.end());

  const start = (id: string) => startBatch(stack.batch(id, TASK_QUEUE), REQUEST);
  const play = async (id: string): Promise<BatchOutcome> => (await start(id)).outcome();

  test('keeps rollouts on one of them, but for those that one has no room for, and uses both', async () => {
    const outcome = await play('both');
    assertComplete(outcome, SIZE);
    assertMostStay(outcome);
    assert.deepEqual(allReplicas(outcome), [a.replica, b.replica].sort());
  });

  test('completes on the other one when one is killed in its midst, and rows name both', async () => {
    const before = await countCompletions(a.directory);
    const batch = await start('killed');
    await eventually('turns on the first replica', async () => {
      return (await countCompletions(a.directory)) >= before + 3;
    });
    await a.kill();
    const outcome = await batch.outcome();
    assertComplete(outcome, SIZE);
    const moved = outcome.rollouts.filter((row) => replicasOf(row).length === 2);
    assert.ok(moved.length > 0, 'no rollout was moved');
    for (const row of moved)
      assert.deepEqual(replicasOf(row), [a.replica, b.replica], row.rollout_id);
    assert.match(await worker.log(), /"replica set aside"/);
  });

  test('starts and completes while only one is there', async () => {
    const outcome = await play('one-absent');
    assertComplete(outcome, SIZE);
    assert.deepEqual(allReplicas(outcome), [b.replica]);
  });

  test('uses the one that was away again once it is back', async () => {
    await a.start();
    await eventually('the replica to be back', async () =>
      (await worker.log()).includes('"replica is back"'),
    );
    const outcome = await play('back');
    assertComplete(outcome, SIZE);
    assertMostStay(outcome);
    assert.deepEqual(allReplicas(outcome), [a.replica, b.replica].sort());
  });
});
