import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BatchProgress } from '../../src/activities/contract.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'many-updates';

test('sixty updates reach a hundred rollouts in rounds, and the history stays short', async (t) => {
  const bed = await startTestbed('many-updates');
  t.after(() => bed.end());
  const generation = await bed.simulate({
    // A turn takes a quarter of an hour: none ends before the last change, and a waiting rollout costs nothing.
    slow: { skill: 0, seed: 1, thinking_tokens: 50, tokens_per_second: 0.1 },
  });
  const worker = { turn_slice: '0s', heartbeat_timeout: '2s' };
  await bed.startWorker({ task_queue: QUEUE, generation, worker });
  const size = { samples: 1, num_repeats: 100, max_in_flight: 100 };
  const { handle, outcome } = await startBatch(bed.batch('budget', QUEUE), {
    ...puzzleRequest(size, { max_rollout_turns: 100 }),
    generation: { service: 'slow', max_new_tokens: 64 },
    max_in_flight: 100,
  });
  const running = '100 rollouts that run';
  await eventually(running, async () => {
    // It may not have started yet.
    const progress = await handle.query<BatchProgress>('progress').catch(() => null);
    return progress?.running === 100;
  });
  for (let n = 0; n < 60; n++)
    await handle.executeUpdate('set_limits', { args: [{ max_rollout_turns: 100 + n }] });
  const last = bed.server.client.workflow.getHandle('budget/0-99');
  await eventually({ what: 'the last change to arrive', timeout_ms: 900_000 }, async () => {
    const { events } = await last.fetchHistory();
    const heard = (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) =>
      signal?.signalName === 'limits' ? [String(signal.input?.payloads?.[0]?.data)] : [],
    );
    return heard.at(-1) === '{"max_rollout_turns":159}';
  });
  await handle.signal('stop');
  const { result } = await outcome();
  assert.equal(result!.counts.stopped, 100);
  const { events } = await handle.fetchHistory();
  assert.ok(events!.length < 10_240, `${events!.length} events`);
});
