/** A thousand groups in flight whose limits change three times at once: more signals than a workflow may have pending. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { openStreamToTest } from '../../lab/bed/stream.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'stream-limits';
const GROUPS = 1000;
const CHANGES = [{ max_rollout_turns: 9 }, { max_rollout_turns: 8 }, { max_new_tokens: 32 }];

describe('a stream of a thousand groups', () => {
  let bed: Testbed;
  before(async () => {
    bed = await startTestbed('stream-limits');
    // A turn takes longer than the test, because a waiting rollout costs nothing and one that ends is no more in flight.
    const generation = await bed.simulate({
      default: { thinking_tokens: 60, skill: 0, seed: 1, tokens_per_second: 0.02 },
    });
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      worker: { max_generations: 8 },
    });
  });
  after(() => bed.end());

  test('takes three changes of its limits at once, and no workflow task fails', async () => {
    const { client } = bed.server;
    const stream = openStreamToTest({
      client: () => client,
      store_root: bed.store_root,
      id: 'thousand',
      task_queue: QUEUE,
    });
    await stream.start({
      ...puzzleRequest({ samples: 8, num_repeats: 1 }),
      groups_per_step: GROUPS / 2,
      max_in_flight: GROUPS,
      rollout_timeout: '3h',
    });
    await eventually({ what: 'all groups', timeout_ms: 1_800_000 }, async () => {
      const progress = await stream.progress().catch(() => null);
      return progress?.in_flight === GROUPS;
    });
    const { runId } = await stream.handle().describe();
    const answers = await Promise.all(
      CHANGES.map((change) =>
        stream.handle().executeUpdate<object, [object]>('set_limits', { args: [change] }),
      ),
    );
    // Updates that are sent at once have no order, so each answer is sure of its own change only.
    for (const [at, change] of CHANGES.entries())
      assert.deepEqual({ ...answers[at], ...change }, answers[at]);
    // The last group gets a change last.
    const last = client.workflow.getHandle(`thousand/${GROUPS - 1}`);
    await eventually({ what: 'the last change', timeout_ms: 1_800_000 }, async () => {
      const events = (await last.fetchHistory()).events ?? [];
      const told = events.flatMap(
        ({ workflowExecutionSignaledEventAttributes: at }) => at?.input?.payloads ?? [],
      );
      return told.some(({ data }) =>
        /"max_new_tokens":32/.test(Buffer.from(data ?? []).toString()),
      );
    });
    for (const run of new Set([runId, (await stream.handle().describe()).runId])) {
      const { events } = await client.workflow.getHandle('thousand', run).fetchHistory();
      const failed = (events ?? []).flatMap(
        ({ workflowTaskFailedEventAttributes: at }) => at?.failure?.message ?? [],
      );
      // The server gives a task again that would have ended a run while something came for it.
      assert.deepEqual(
        failed.filter((message) => message !== 'UnhandledCommand'),
        [],
      );
    }
    await stream.handle().terminate('its groups would take a while to end');
  });
});
