/**
 * What histories hold, and that they replay. The recorded ones in test/histories come from this file:
 * `RECORD_HISTORIES=1 node --import tsx --test test/long/history.test.ts` writes them anew, after a change of the
 * workflows that is meant to change commands.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { PolicyStatus } from '../../src/activities/contract/policy.js';
import { onLoopback } from '../../src/client/server.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { startBatch } from '../../lab/bed/batch.js';
import { openStreamToTest } from '../../lab/bed/stream.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import { idIn } from '../harness/written-history.js';

type History = ReturnType<typeof historyFromJSON>;

const HISTORIES = fileURLToPath(new URL('../histories/', import.meta.url));
const BUNDLE = { codePath: path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js') };
const QUEUE = 'history';

describe('histories', () => {
  let bed: Testbed;

  before(async () => {
    Runtime.install({ logger: new DefaultLogger('WARN') });
    bed = await startTestbed('history');
    const generation = await bed.simulate({
      default: { thinking_tokens: 8, skill: 0, seed: 1 },
      // Its weights can be changed.
      learner: { dev_mode: true },
    });
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      worker: { turn_slice: '0s' },
    });
  });
  after(() => bed.end());

  const historyOf = (workflowId: string): Promise<History> =>
    bed.server.client.workflow.getHandle(workflowId).fetchHistory();

  /** Bytes, as the server counts them. */
  const sizeOf = async (workflowId: string): Promise<number> =>
    (await bed.server.client.workflow.getHandle(workflowId).describe()).historySize ?? 0;

  const run = async (batch_id: string, request: Record<string, unknown>): Promise<void> => {
    const batch = await startBatch(bed.batch(batch_id, QUEUE), request);
    const { result, failure } = await batch.outcome();
    assert.equal(failure, null);
    assert.equal(result?.counts.completed, result?.counts.requested);
  };

  const record = async (name: string, workflowId: string): Promise<void> => {
    if (process.env['RECORD_HISTORIES'] !== '1') return;
    await writeFile(
      path.join(HISTORIES, `${name}.json`),
      historyToJSON(await historyOf(workflowId)),
    );
  };

  test('a turn activity costs at most 6 events and 1.5 kB, and holds no token', async () => {
    await run('budget', puzzleRequest({ samples: 1, num_repeats: 2 }, { max_rollout_turns: 12 }));
    await run(
      'budget-short',
      puzzleRequest({ samples: 1, num_repeats: 2 }, { max_rollout_turns: 2 }),
    );
    const [long, short] = [await historyOf('budget/0-0'), await historyOf('budget-short/0-0')];
    const turns = 10;
    assert.ok(
      eventsOf(long) - eventsOf(short) <= turns * 6,
      `${eventsOf(long) - eventsOf(short)} events for ${turns} turns`,
    );
    const bytes = (await sizeOf('budget/0-0')) - (await sizeOf('budget-short/0-0'));
    assert.ok(bytes <= turns * 1500, `${bytes} bytes for ${turns} turns`);
    for (const event of long.events ?? []) {
      assert.doesNotMatch(decoded(historyToJSON({ events: [event] })), /token_ids|logprobs/);
    }
    await record('rollout', 'budget/0-0');
  });

  test('payloads of a turn are at most 400 bytes beside the preview', async () => {
    const { events } = await historyOf('budget/0-0');
    const turns = new Set(
      (events ?? [])
        .filter(
          ({ activityTaskScheduledEventAttributes: scheduled }) =>
            scheduled?.activityType?.name === 'playTurns',
        )
        .map(({ eventId }) => String(eventId)),
    );
    const sizes = (events ?? []).flatMap(
      ({
        eventId,
        activityTaskScheduledEventAttributes: scheduled,
        activityTaskCompletedEventAttributes: completed,
      }) => [
        ...(turns.has(String(eventId)) ? (scheduled?.input?.payloads ?? []) : []),
        ...(turns.has(String(completed?.scheduledEventId))
          ? (completed?.result?.payloads ?? [])
          : []),
      ],
    );
    // The first of twelve turns is played by the activity that opens the rollout.
    assert.ok(sizes.length >= 2 * turns.size && turns.size >= 11);
    for (const { data } of sizes) {
      const value = JSON.parse(Buffer.from(data ?? []).toString()) as { preview?: string };
      const { preview = '', ...rest } = value;
      assert.ok(preview.length <= 120, `a preview of ${preview.length} characters`);
      assert.ok(
        JSON.stringify(rest).length <= 400,
        `a payload of ${JSON.stringify(rest).length} bytes`,
      );
    }
  });

  test('a batch costs at most 14 events a rollout and 5,000 in all, and its slices too', async () => {
    await run('slices', puzzleRequest({ samples: 65, num_repeats: 2 }, { max_rollout_turns: 0 }));
    const batch = await historyOf('slices');
    const slices = await Promise.all(['slices/rows-0-63', 'slices/rows-64-64'].map(historyOf));
    assert.ok(eventsOf(batch) <= 5000, `${eventsOf(batch)} events of the batch`);
    assert.ok(eventsOf(slices[0]!) <= 128 * 14, `${eventsOf(slices[0]!)} events of a slice of 128`);
    await record('slice', 'slices/rows-64-64');
    await record('batch-of-slices', 'slices');
    for (const history of [batch, ...slices]) await replay(history);
  });

  test('two updates of weights, of which one fails and is mended, cost at most 120 events', async () => {
    const { updates, events } = await publishTwice(bed, 'policy/learner');
    assert.deepEqual(
      updates.map(({ fault }) => fault === null),
      [true, false],
    );
    assert.ok(events <= 120, `${events} events`);
    await record('policy', 'policy/learner');
    await replay(await historyOf('policy/learner'));
  });

  test('a stream and its groups replay, and a group costs its stream at most 20 events', async () => {
    const stream = openStreamToTest({
      client: () => bed.server.client,
      store_root: bed.store_root,
      id: 'stream',
      task_queue: QUEUE,
    });
    const size = { samples: 4, num_repeats: 2 };
    await stream.start({ ...puzzleRequest(size, { max_rollout_turns: 1 }), groups_per_step: 2 });
    for (let step = 0; step < 3; step++) await stream.step(step, step);
    await stream.forget(0);
    await stream.handle().signal('stop');
    await stream.handle().result();
    const history = await historyOf('stream');
    const groups = 10;
    assert.ok(eventsOf(history) <= 100 + groups * 20, `${eventsOf(history)} events`);
    await record('stream', 'stream');
    await record('group', 'stream/0');
    for (const id of ['stream', 'stream/0']) await replay(await historyOf(id));
  });

  test('fresh histories of every workflow type replay', async () => {
    for (const id of ['budget', 'budget/0-0', 'budget/0-1']) await replay(await historyOf(id));
    await record('batch', 'budget');
  });
});

/** Publishes existing weights, then missing ones: the replica gets the first ones back by itself. */
async function publishTwice(
  { server, directory }: Testbed,
  id: string,
): Promise<{ updates: PolicyStatus['updates']; events: number }> {
  const file = path.join(directory, 'weights.json');
  await writeFile(file, JSON.stringify({ name: '1', skill: 1, seed: 1 }));
  const place = { service: 'learner', task_queue: QUEUE };
  const policy = await connectPolicy(onLoopback(server), place);
  try {
    await policy.update('publish', { version: 1, weights: { kind: 'checkpoint', path: file } });
    const missing = { version: 2, weights: { kind: 'checkpoint', path: '/no/such/file' } };
    await assert.rejects(policy.update('publish', missing), WorkflowUpdateFailedError);
    await eventually('version 1 again', async () => {
      const { replicas = {} } = (await policy.status()).record ?? {};
      return Object.values(replicas).every(({ state }) => state === 'current');
    });
    const { historyLength } = await server.client.workflow.getHandle(id).describe();
    return { updates: (await policy.status()).updates, events: historyLength };
  } finally {
    await policy.close();
  }
}

const replay = (history: History): Promise<void> =>
  Worker.runReplayHistory({ workflowBundle: BUNDLE }, history, idIn(history));

const eventsOf = ({ events }: History): number => events?.length ?? 0;

/** Base64 payloads as text. */
const decoded = (json: string): string =>
  json.replace(/"data":"([A-Za-z0-9+/=]+)"/g, (_, data: string) =>
    Buffer.from(data, 'base64').toString(),
  );
