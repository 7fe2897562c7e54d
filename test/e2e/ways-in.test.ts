/** How users start batches: the Temporal CLI and a Temporal Schedule, with the request in a file. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { BatchResult } from '../../src/activities/contract.js';
import { connectBatchClient } from '../../src/client/batch-client.js';
import { onLoopback } from '../../src/client/server.js';
import { readRows } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Temporal } from '../harness/temporal-command.js';
import { temporalOn } from '../harness/temporal-command.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'ways-in';

describe('a batch', () => {
  let bed: Testbed;
  let temporal: Temporal;
  let input: string;

  before(async () => {
    bed = await startTestbed('ways-in');
    temporal = await temporalOn(bed.server);
    await bed.startWorker({
      task_queue: QUEUE,
      generation: await bed.simulate({ default: { thinking_tokens: 4, skill: 0, seed: 1 } }),
    });
    input = path.join(bed.directory, 'batch.json');
    await writeFile(input, JSON.stringify(puzzleRequest({ samples: 2, num_repeats: 2 })));
  });
  after(() => bed.end());

  const start = ['--type', 'rolloutBatch', '--task-queue', QUEUE, '--input-file'];

  test('is started by `temporal workflow execute`, which prints its result', async () => {
    const answer = await temporal(
      'workflow',
      'execute',
      '--workflow-id',
      'step-1',
      ...start,
      input,
      '-o',
      'json',
    );
    const { status, result } = JSON.parse(answer) as { status: string; result: BatchResult };
    assert.equal(status, 'COMPLETED');
    assert.equal(result.counts.completed, 4);
    assert.ok(Buffer.byteLength(JSON.stringify(result)) < 16_000);
    assert.equal((await readRows(result.files.rollouts)).length, 4);
  });

  test('can be found by what its rollouts came to', async () => {
    const query = `RolloutOutcome="max_turns" AND RolloutTask="sliding_puzzle" AND RolloutTurns=5 AND WorkflowId STARTS_WITH "step-1/"`;
    await eventually('the list to show four rollouts', async () => {
      const rows = JSON.parse(
        await temporal('workflow', 'list', '--query', query, '-o', 'json'),
      ) as unknown[];
      return rows.length === 4;
    });
  });

  test('keeps its result where a later start with another request is refused, which clients refuse themselves', async () => {
    const request = puzzleRequest({ samples: 2, num_repeats: 2 });
    const other = path.join(bed.directory, 'other.json');
    await writeFile(other, JSON.stringify({ ...request, limit: 1 }));
    await temporal('workflow', 'start', '--workflow-id', 'step-1', ...start, other);
    const client = await connectBatchClient(onLoopback(bed.server));
    try {
      const batch = client.attach('step-1');
      const isOver = async (): Promise<boolean> => (await batch.look()).closed;
      await eventually('the refusal', isOver);
      const outcome = await batch.outcome();
      assert.ok('result' in outcome, JSON.stringify(outcome));
      assert.equal(outcome.result.counts.completed, 4);
      assert.match(outcome.refused ?? '', /^limit: the batch of this id has null, got 1; /);
      const again = { batchId: 'step-1', taskQueue: QUEUE };
      await assert.rejects(client.start({ ...again, request: { ...request, limit: 1 } }), {
        message: 'batch step-1 has another request: limit: null there, 1 here; use another id',
      });
      const own = await client.start({ ...again, request });
      assert.deepEqual(own.started, { how: 'continued', there: outcome.result.counts });
      await eventually('the end', isOver);
      assert.deepEqual(await batch.outcome(), await own.outcome());
    } finally {
      await client.close();
    }
  });

  test('of each run of a schedule has its own id', async () => {
    await temporal(
      'schedule',
      'create',
      '--schedule-id',
      'nightly',
      '--interval',
      '24h',
      '--workflow-id',
      'nightly',
      ...start,
      input,
    );
    const trigger = [
      'schedule',
      'trigger',
      '--schedule-id',
      'nightly',
      '--overlap-policy',
      'AllowAll',
    ];
    await temporal(...trigger);
    await sleep(2000);
    await temporal(...trigger);
    const ids = new Set<string>();
    const query =
      'WorkflowType="rolloutBatch" AND ExecutionStatus="Completed" AND WorkflowId STARTS_WITH "nightly"';
    await eventually('two scheduled batches to complete', async () => {
      for await (const { workflowId } of bed.server.client.workflow.list({ query }))
        ids.add(workflowId);
      return ids.size === 2;
    });
    for (const id of ids) {
      assert.match(id, /^nightly-\d{4}-\d\d-\d\dT/);
      // Object stores and Windows refuse colons.
      const folder = path.join(bed.store_root, id.replaceAll(':', '='));
      const rows = await readRows(path.join(folder, 'rollouts.jsonl'));
      assert.deepEqual(
        rows.map(({ batch_id }) => batch_id),
        Array(4).fill(id),
      );
    }
  });
});
