/** Limits that are changed before a rollout has its plan. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const ROLLOUT = { type: 'rollout', workflowId: 'b/0-0', parent: 'b' };
const TEN_SECONDS = { timerId: '1', startToFireTimeout: '10s' };
const AN_HOUR = { startToFireTimeout: '3600s' };
const PLAN = {
  batch_id: 'b',
  row: 0,
  repeat: 0,
  task_name: 't',
  policy_version: null,
  limits: { rollout_timeout: '60s' },
  progress: {
    turn: 0,
    ended: 'max_turns',
    total_reward: 0,
    total_tokens: 0,
    phase: 'generate',
    preview: '',
  },
};

async function ends(
  history: WrittenHistory,
  {
    stop_reason,
    finishing = history.scheduleActivity('finishRollout'),
  }: { stop_reason: string; finishing?: string },
): Promise<void> {
  const failed = stop_reason === 'timeout';
  history.completeActivity(finishing, {
    result: { stop_reason, total_reward: 0, turn_count: 0, total_tokens: 0 },
    failure: failed ? { type: 'TimedOut', message: 'late' } : null,
    facts: null,
    batch: null,
  });
  history.task();
  history.add('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', {});
  history.add(failed ? 'WORKFLOW_EXECUTION_FAILED' : 'WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

/** The activity that opened it wrote the end: nothing has to be finished. */
async function endsByItself(history: WrittenHistory): Promise<void> {
  history.add('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', {});
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

describe('a rollout_timeout that is known while a rollout starts', () => {
  test('by its memo ends it there, though no plan has come', async () => {
    const history = writeHistory({ ...ROLLOUT, memo: { limits: { rollout_timeout: '10s' } } }, {});
    history.task();
    const startedEventId = history.add('TIMER_STARTED', TEN_SECONDS);
    const scheduledEventId = history.scheduleActivity('openRollout');
    history.add('TIMER_FIRED', { timerId: '1', startedEventId });
    history.task();
    history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId });
    history.add('ACTIVITY_TASK_CANCELED', { scheduledEventId });
    history.task();
    await ends(history, { stop_reason: 'timeout' });
  });

  test('by a signal has its timer from then on, and the plan no other', async () => {
    const history = writeHistory(ROLLOUT, {});
    history.task();
    const scheduledEventId = history.scheduleActivity('openRollout');
    history.signal('limits', { rollout_timeout: '10s' });
    history.task();
    history.add('TIMER_STARTED', TEN_SECONDS);
    history.completeActivity(scheduledEventId, PLAN);
    history.task();
    await endsByItself(history);
  });

  test('by an update has its timer from then on, and the answer waits for the plan', async () => {
    const history = writeHistory(ROLLOUT, {});
    history.task();
    const scheduledEventId = history.scheduleActivity('openRollout');
    history.task();
    history.update('set_limits', { rollout_timeout: '10s' });
    history.activity('setLimits', null);
    history.task();
    const startedEventId = history.add('TIMER_STARTED', TEN_SECONDS);
    history.add('TIMER_FIRED', { timerId: '1', startedEventId });
    history.task();
    history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId });
    history.add('ACTIVITY_TASK_CANCELED', { scheduledEventId });
    history.task();
    const finishing = history.scheduleActivity('finishRollout');
    history.updateEnds();
    await ends(history, { stop_reason: 'timeout', finishing });
  });
});

describe('a start that a limit ended', () => {
  const cases = [
    { fault: 'TimedOut', limits: { rollout_timeout: '1h' } },
    { fault: 'PromptTooLong', limits: { max_seq_len: 9000, rollout_timeout: '1h' } },
  ];
  for (const { fault, limits } of cases) {
    test(`as ${fault} is tried again, where the limit was raised meanwhile`, async () => {
      const history = writeHistory(ROLLOUT, {});
      history.task();
      const scheduledEventId = history.scheduleActivity('openRollout');
      history.signal('limits', limits);
      history.task();
      history.add('TIMER_STARTED', { timerId: '1', ...AN_HOUR });
      history.failActivity(scheduledEventId, fault);
      history.task();
      history.activity('openRollout', PLAN);
      // An event comes every tenth of a second: the second opening knows what the first one has used up.
      history.gives({});
      history.gives(limits);
      history.gives(1100);
      history.task();
      await endsByItself(history);
    });
  }

  test('as TimedOut is tried again where only the time without a replica is over it', async () => {
    const history = writeHistory(ROLLOUT, {});
    history.task();
    const scheduledEventId = history.scheduleActivity('openRollout');
    history.signal('limits', { rollout_timeout: '2500ms' });
    history.task();
    const startedEventId = history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '1s' });
    const held = { service: 'http://engine', message: 'is away', holds: true };
    history.signal('waiting', held);
    history.task();
    history.add('TIMER_CANCELED', { timerId: '1', startedEventId });
    // An event comes every tenth of a second.
    for (let tenth = 0; tenth < 10; tenth++) history.signal('waiting', held);
    history.signal('waiting', null);
    history.task();
    history.add('TIMER_STARTED', { timerId: '2', startToFireTimeout: '1s' });
    history.failActivity(scheduledEventId, 'TimedOut');
    history.task();
    history.activity('openRollout', PLAN);
    history.gives({ rollout_timeout: '2500ms' });
    history.gives(1600);
    history.task();
    await endsByItself(history);
  });

  test('is not tried again where nothing has changed since', async () => {
    const history = writeHistory({ ...ROLLOUT, memo: { limits: { rollout_timeout: '1h' } } }, {});
    history.task();
    history.add('TIMER_STARTED', { timerId: '1', ...AN_HOUR });
    history.failActivity(history.scheduleActivity('openRollout'), 'TimedOut');
    history.task();
    await ends(history, { stop_reason: 'timeout' });
  });
});
