/** News that reach a child while it is being started. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const TALLY = { done: 1, running: 0, valid: 0, turns: 0, tokens: 0, reward_sum: 0 };

/** The child could not be told: it may just have ended. */
const notFound = (history: WrittenHistory, initiatedEventId: string): void => {
  history.add('SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED', {
    initiatedEventId,
    cause: 'SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_EXTERNAL_WORKFLOW_EXECUTION_NOT_FOUND',
  });
};

describe('a child that cannot be signalled what changed while it was being started', () => {
  test('counts in its slice when it ends', async () => {
    const history = writeHistory(
      { type: 'rolloutSlice', workflowId: 'b/rows-0-0', parent: 'b' },
      { batch_id: 'b', first: 0, last: 0, num_repeats: 1, max_in_flight: 1, tallies: 0, k: 1 },
    );
    history.task();
    const child = history.startChild('rollout', 'b/0-0');
    history.signal('limits', { max_rollout_turns: 3 });
    history.childStarted(child, { type: 'rollout', workflowId: 'b/0-0' });
    history.task();
    notFound(history, history.signalChild('limits', 'b/0-0'));
    history.task();
    const result = { stop_reason: 'max_turns', total_reward: 0, turn_count: 3, total_tokens: 9 };
    history.childCompleted(child, result);
    history.task();
    history.activity('closeSlice', null);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });

  test('is waited for by its batch, where it is a slice', async () => {
    const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, {});
    history.task();
    history.activity('planBatch', {
      batch_id: 'b',
      samples: 2,
      num_repeats: 1,
      slices: [0, 1].map((row) => ({ first: row, last: row })),
      tallies: 0,
      max_in_flight: 2,
      limits: {},
      min_k: { k: 1, deadline_ms: 60_000 },
      refill: null,
      continued: false,
    });
    history.task();
    const deadline = history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '60s' });
    const ids = ['b/rows-0-0', 'b/rows-1-1'];
    const children = ids.map((workflowId) => history.startChild('rolloutSlice', workflowId));
    history.signal('stop');
    for (const [i, workflowId] of ids.entries())
      history.childStarted(children[i]!, { type: 'rolloutSlice', workflowId });
    history.task();
    for (const signal of ids.map((id) => history.signalChild('stop', id)))
      notFound(history, signal);
    history.task();
    // A batch that waits for nothing more has no deadline either.
    history.add('TIMER_FIRED', { timerId: '1', startedEventId: deadline });
    history.task();
    for (const id of ids) history.signalChild('stop', id);
    for (const child of children) history.childCompleted(child, TALLY);
    history.task();
    history.activity('closeBatch', { counts: { requested: 2, completed: 0 } });
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });
});
