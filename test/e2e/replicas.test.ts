import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Row } from '../../src/model/results/row.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { assertComplete } from '../harness/row-comparison.js';
import type { SimulatorProcess } from '../../lab/bed/simulator.js';
import { countCompletions, startSimulatorProcess } from '../../lab/bed/simulator.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const TASK_QUEUE = 'replicas';
const SIZE = { samples: 8, repeats: 2 };
const REQUEST = puzzleRequest({ samples: SIZE.samples, num_repeats: SIZE.repeats });

/** One of the two engines; its folder has the log of its requests. */
interface Replica {
  directory: string;
  simulator: SimulatorProcess;
  /** As rows name it. */
  url: string;
}

async function startReplica(directory: string, port = 0): Promise<Replica> {
  await mkdir(directory, { recursive: true });
  const settings = { tokens_per_second: 100 };
  const simulator = await startSimulatorProcess({ directory, port, settings });
  return { directory, simulator, url: `${simulator.url}/v1` };
}

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
  let bed: Testbed;
  let worker: WorkerProcess;
  let a: Replica;
  let b: Replica;

  before(async () => {
    bed = await startTestbed('replicas');
    a = await startReplica(path.join(bed.directory, 'a'));
    b = await startReplica(path.join(bed.directory, 'b'));
    worker = await bed.startWorker({
      task_queue: TASK_QUEUE,
      generation: { default: { kind: 'vllm', base_urls: [a.url, b.url] } },
      environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
      worker: { heartbeat_timeout: '2s', turn_slice: '500ms' },
    });
  });
  after(async () => {
    // If `before` failed, some of them are missing.
    for (const replica of [a, b] as (Replica | undefined)[]) await replica?.simulator.stop();
    await (bed as Testbed | undefined)?.end();
  });

  const start = (id: string) => startBatch(bed.batch(id, TASK_QUEUE), REQUEST);
  const play = async (id: string): Promise<BatchOutcome> => (await start(id)).outcome();

  test('keeps rollouts on one of them, but for those that one has no room for, and uses both', async () => {
    const outcome = await play('both');
    assertComplete(outcome, SIZE);
    assertMostStay(outcome);
    assert.deepEqual(allReplicas(outcome), [a.url, b.url].sort());
  });

  test('completes on the other one when one is killed in its midst, and rows name both', async () => {
    const before = await countCompletions(a.directory);
    const batch = await start('killed');
    await eventually('turns on the first replica', async () => {
      return (await countCompletions(a.directory)) >= before + 3;
    });
    await a.simulator.kill();
    const outcome = await batch.outcome();
    assertComplete(outcome, SIZE);
    const moved = outcome.rollouts.filter((row) => replicasOf(row).length === 2);
    assert.ok(moved.length > 0, 'no rollout was moved');
    for (const row of moved) assert.deepEqual(replicasOf(row), [a.url, b.url], row.rollout_id);
    assert.match(await worker.log(), /"replica set aside"/);
  });

  test('starts and completes while only one is there', async () => {
    const outcome = await play('one-absent');
    assertComplete(outcome, SIZE);
    assert.deepEqual(allReplicas(outcome), [b.url]);
  });

  test('uses the one that was away again once it is back', async () => {
    a = await startReplica(a.directory, a.simulator.port);
    await eventually('the replica to be back', async () =>
      (await worker.log()).includes('"replica is back"'),
    );
    const outcome = await play('back');
    assertComplete(outcome, SIZE);
    assertMostStay(outcome);
    assert.deepEqual(allReplicas(outcome), [a.url, b.url].sort());
  });
});
