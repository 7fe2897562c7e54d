/** A task that the server counts as started and no worker has: its connection broke on the way. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { PATIENCE_MS } from '../../lab/bed/waiting.js';

const QUEUE = 'lost-task';

describe('a rollout whose first task is lost', () => {
  let bed: Testbed;
  before(async () => {
    bed = await startTestbed('lost-task');
  });
  after(() => bed.end());

  test('is played within its rollout_timeout, and the lost time is a metric', async () => {
    const { client } = bed.server;
    const parts = {
      task_queue: QUEUE,
      generation: await bed.simulate({ default: { skill: 1, seed: 1 } }),
    };
    const alone = { ...parts, worker: { roles: ['workflow' as const, 'environment' as const] } };
    await bed.startWorker({ ...alone, name: 'without-generation' });
    const request = puzzleRequest(
      { samples: 1, num_repeats: 1 },
      { rollout_timeout: '45s', max_rollout_turns: 2 },
    );
    const batch = await startBatch(bed.batch('lost', QUEUE), request);
    // Takes the task, and forgets it.
    const { taskToken } = await client.connection.withDeadline(Date.now() + PATIENCE_MS, () =>
      client.workflowService.pollActivityTaskQueue({
        namespace: bed.server.namespace,
        taskQueue: { name: `${QUEUE}-generation` },
        identity: 'forgetful',
      }),
    );
    assert.ok(taskToken.length > 0);
    await bed.startWorker({ ...parts, worker: { roles: ['generation'] }, name: 'generation' });
    const { result, failure, rollouts }: BatchOutcome = await batch.outcome();
    assert.deepEqual([failure, rollouts.length], [null, 1]);
    const lost_s = result?.metrics['lost_s'] ?? 0;
    assert.ok(lost_s > 0 && lost_s <= 15, `${lost_s} s were lost`);
  });
});
