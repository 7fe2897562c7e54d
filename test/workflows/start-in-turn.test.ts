/** Children whose ids are still taken by those of an earlier run. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const REPEATS = [0, 1, 2];

const refused = (history: WrittenHistory, initiatedEventId: string): void => {
  history.add('START_CHILD_WORKFLOW_EXECUTION_FAILED', {
    initiatedEventId,
    cause: 'START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS',
    workflowType: { name: 'rollout' },
  });
};

/** A slice of three, each refused; the stop comes while the first waits to be tried again. */
function refusedAndStopped(): WrittenHistory {
  const history = writeHistory(
    { type: 'rolloutSlice', workflowId: 'b/rows-0-0', parent: 'b' },
    { batch_id: 'b', first: 0, last: 0, num_repeats: 3, max_in_flight: 3, tallies: 0, k: null },
  );
  history.task();
  const starts = REPEATS.map((repeat) => history.startChild('rollout', `b/0-${repeat}`));
  for (const start of starts) refused(history, start);
  history.task();
  const first = history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '1s' });
  history.signal('stop');
  history.task();
  history.add('TIMER_FIRED', { timerId: '1', startedEventId: first });
  history.task();
  return history;
}

async function endsClosed(history: WrittenHistory): Promise<void> {
  history.activity('closeSlice', null);
  history.task();
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

test('children that play on for a run that was reset are cancelled at the second refusal, all at once, and then start', async () => {
  const history = writeHistory(
    { type: 'rolloutSlice', workflowId: 'b/rows-0-0', parent: 'b' },
    { batch_id: 'b', first: 0, last: 0, num_repeats: 2, max_in_flight: 2, tallies: 0, k: null },
  );
  const wait = (timerId: string): void => {
    const startedEventId = history.add('TIMER_STARTED', { timerId, startToFireTimeout: '1s' });
    history.add('TIMER_FIRED', { timerId, startedEventId });
    history.task();
  };
  history.task();
  const starts = [0, 1].map((repeat) => history.startChild('rollout', `b/0-${repeat}`));
  for (const start of starts) refused(history, start);
  history.task();
  for (const timerId of ['1', '2']) {
    wait(timerId);
    refused(history, history.startChild('rollout', 'b/0-0'));
    history.task();
  }
  for (const repeat of [0, 1])
    history.add('REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED', {
      namespace: 'default',
      workflowExecution: { workflowId: `b/0-${repeat}` },
    });
  for (const [repeat, timerId] of ['3', '4'].entries()) {
    wait(timerId);
    const child = history.startChild('rollout', `b/0-${repeat}`);
    history.childStarted(child, { type: 'rollout', workflowId: `b/0-${repeat}` });
    history.childCompleted(child, {
      stop_reason: 'terminated',
      total_reward: 1,
      turn_count: 1,
      total_tokens: 9,
    });
    history.task();
  }
  await endsClosed(history);
});

describe('after a stop', () => {
  test('no wait in line is left', async () => {
    const history = refusedAndStopped();
    await endsClosed(history);
  });
});
