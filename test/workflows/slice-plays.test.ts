/** A slice that plays its rollouts itself: activities in place of child workflows. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const SLICE = { type: 'rolloutSlice', workflowId: 'b/rows-0-1', parent: 'b' };
const INPUT = {
  batch_id: 'b',
  first: 0,
  last: 1,
  num_repeats: 1,
  max_in_flight: 2,
  tallies: 0,
  k: null,
  rollout_timeout: '60s',
  plays_rollouts: true,
};
const AN_HOUR = { startToFireTimeout: '3600s' };

const rowOf = (row: number) => ({ batch_id: 'b', row, repeat: 0 });

const planOf = (row: number) => ({
  ...rowOf(row),
  task_name: 't',
  policy_version: null,
  agent: { name: 'a', task_index: row, rollout_index: 0, attempt: 0 },
  limits: { rollout_timeout: '60s' },
  is_batch: false,
  progress: {
    turn: 1,
    ended: 'terminated',
    total_reward: 0.5,
    total_tokens: 3,
    phase: 'run',
    preview: '',
  },
});

const finished = (row: number, stop_reason: string) => ({
  result: {
    rollout_id: `b/${row}-0`,
    stop_reason,
    total_reward: 0,
    turn_count: 0,
    total_tokens: 0,
  },
  failure: stop_reason === 'failed' ? { type: 'AgentFailed', message: 'no' } : null,
  facts: null,
  batch: null,
});

const TALLY = { done: 2, running: 0, valid: 2, turns: 2, tokens: 6, reward_sum: 1 };

async function closes(history: WrittenHistory, tally: object): Promise<void> {
  history.activity('closeSlice', null);
  history.task();
  history.gives(tally);
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

/** Returns what its cancellation names: nothing of a rollout that has ended may wake the slice. */
function startsTimer(
  history: WrittenHistory,
  timer: { timerId: string; startToFireTimeout: string },
): { timerId: string; startedEventId: string } {
  return { timerId: timer.timerId, startedEventId: history.add('TIMER_STARTED', timer) };
}

function cancels(history: WrittenHistory, scheduledEventId: string): void {
  history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId });
  history.add('ACTIVITY_TASK_CANCELED', { scheduledEventId });
}

describe('a slice that plays its rollouts', () => {
  test('opens each by an activity that names its place, and starts no workflow', async () => {
    const history = writeHistory(SLICE, INPUT);
    history.task();
    history.gives(rowOf(0));
    const first = history.scheduleActivity('openRollout');
    history.gives(rowOf(1));
    const second = history.scheduleActivity('openRollout');
    history.completeActivity(second, planOf(1));
    history.completeActivity(first, planOf(0));
    history.task();
    await closes(history, TALLY);
  });

  test('has as many in progress as its share, and the next when one has ended', async () => {
    const history = writeHistory(SLICE, { ...INPUT, max_in_flight: 1 });
    history.task();
    const first = history.scheduleActivity('openRollout');
    history.completeActivity(first, planOf(0));
    history.task();
    const second = history.scheduleActivity('openRollout');
    history.completeActivity(second, planOf(1));
    history.task();
    await closes(history, TALLY);
  });

  test('finishes one that has failed, counts it, and plays the other', async () => {
    const history = writeHistory(SLICE, INPUT);
    history.task();
    const first = history.scheduleActivity('openRollout');
    const second = history.scheduleActivity('openRollout');
    history.failActivity(first, 'AgentFailed');
    history.task();
    const failure = { type: 'AgentFailed', message: 'written' };
    history.gives({ stop_reason: 'failed', failure, rollout: rowOf(0) });
    history.activity('finishRollout', finished(0, 'failed'));
    history.completeActivity(second, planOf(1));
    history.task();
    const failures = { AgentFailed: { rollouts: 1, message: 'no', example: 'b/0-0' } };
    await closes(history, { ...TALLY, valid: 1, turns: 1, tokens: 3, reward_sum: 0.5, failures });
  });

  test('plays on where an environment has a queue of its own', async () => {
    const history = writeHistory(SLICE, { ...INPUT, last: 0 });
    history.task();
    const { progress, ...plan } = planOf(0);
    const queues = { playTurns: 'own', generateTurn: 'g', stepEnvironment: 'own' };
    const opened = { ...plan, plays: 'in_slices', heartbeat_timeout_ms: 1000, queues };
    history.activity('openRollout', { ...opened, progress: { ...progress, turn: 0, ended: null } });
    history.task();
    const timer = startsTimer(history, { timerId: '1', startToFireTimeout: '60s' });
    history.activity('playTurns', progress);
    history.task();
    history.add('TIMER_CANCELED', timer);
    await closes(history, { ...TALLY, done: 1, valid: 1, turns: 1, tokens: 3, reward_sum: 0.5 });
  });

  test('cancels and finishes those that run where it is stopped, and begins no other', async () => {
    const history = writeHistory(SLICE, { ...INPUT, max_in_flight: 1 });
    history.task();
    const first = history.scheduleActivity('openRollout');
    history.signal('stop');
    history.task();
    cancels(history, first);
    history.task();
    history.gives({ stop_reason: 'stopped', failure: null, rollout: rowOf(0) });
    history.activity('finishRollout', finished(0, 'stopped'));
    history.task();
    const none = { valid: 0, turns: 0, tokens: 0, reward_sum: 0 };
    history.gives({ batch_id: 'b', first: 0, last: 1, stopped: true });
    await closes(history, { ...TALLY, ...none, done: 1 });
  });

  test('moves the deadlines of those that run with the limits, and those that begin later have them', async () => {
    const history = writeHistory(SLICE, { ...INPUT, max_in_flight: 1 });
    history.task();
    const first = history.scheduleActivity('openRollout');
    history.signal('limits', { rollout_timeout: '1h' });
    history.task();
    const before = startsTimer(history, { timerId: '1', ...AN_HOUR });
    history.completeActivity(first, planOf(0));
    history.task();
    history.add('TIMER_CANCELED', before);
    const timer = startsTimer(history, { timerId: '2', ...AN_HOUR });
    history.gives(rowOf(1));
    history.gives({ rollout_timeout: '1h' });
    const second = history.scheduleActivity('openRollout');
    history.completeActivity(second, planOf(1));
    history.task();
    history.add('TIMER_CANCELED', timer);
    await closes(history, TALLY);
  });
});
