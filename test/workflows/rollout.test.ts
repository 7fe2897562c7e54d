/** One rollout as a workflow: which activities it asks for, and what it says when something ends it. */
import { describe, test } from 'node:test';
import { SEARCH_ATTRIBUTES } from '../../src/model/workflow-safe/search-attributes.js';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const REF = { batch_id: 'b', row: 0, repeat: 0 };
const PROGRESS = {
  turn: 0,
  ended: null as string | null,
  total_reward: 0,
  total_tokens: 0,
  phase: 'generate',
  preview: '',
};
const PLAN = {
  ...REF,
  task_name: 't',
  policy_version: null,
  plays: 'by_turns',
  heartbeat_timeout_ms: 10_000,
  queues: { playTurns: 'q', generateTurn: 'q', stepEnvironment: 'q' },
  is_batch: false,
  limits: { max_rollout_turns: 9, max_new_tokens: 9, max_seq_len: 99, rollout_timeout: '1h' },
  progress: PROGRESS,
};
const ENDED = { ...PROGRESS, turn: 2, ended: 'terminated', total_reward: 1, total_tokens: 20 };
const RESULT = {
  rollout_id: 'b/0-0',
  stop_reason: 'terminated',
  total_reward: 1,
  turn_count: 2,
  total_tokens: 20,
};

const begin = (input: unknown = REF): WrittenHistory => {
  const history = writeHistory({ type: 'rollout', workflowId: 'b/0-0', parent: 'b' }, input);
  history.task();
  return history;
};

/** Opened, and not at its end: it has a deadline, and can be found. Returns the deadline's timer. */
function opened(history: WrittenHistory, change: Partial<typeof PLAN> = {}): string {
  history.activity('openRollout', { ...PLAN, ...change });
  history.gives(REF);
  history.task();
  const timer = history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '3600s' });
  history.add('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', {});
  return timer;
}

const at = (progress: Partial<typeof PROGRESS>): typeof PROGRESS => ({ ...PROGRESS, ...progress });

async function ends(
  history: WrittenHistory,
  { as, result }: { as: 'COMPLETED' | 'FAILED' | 'CANCELED'; result?: unknown },
): Promise<void> {
  history.add('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', {});
  if (result !== undefined) history.gives(result);
  history.add(`WORKFLOW_EXECUTION_${as}`, {});
  await history.replay();
}

describe('a rollout', () => {
  test('whose opening reached its end asks for nothing more and returns what was reached', async () => {
    const history = begin();
    history.activity('openRollout', { ...PLAN, progress: ENDED });
    history.task();
    await ends(history, { as: 'COMPLETED', result: RESULT });
  });

  test('that plays in slices asks for one after the other until the end is reached', async () => {
    const history = begin();
    opened(history, { plays: 'in_slices' });
    history.activity('playTurns', at({ turn: 1 }));
    history.gives({ ...REF, turn: 0 });
    history.task();
    history.activity('playTurns', ENDED);
    history.gives({ ...REF, turn: 1 });
    history.task();
    await ends(history, { as: 'COMPLETED', result: RESULT });
  });

  test('that plays by turns generates, then steps, turn after turn', async () => {
    const history = begin();
    opened(history);
    history.activity('generateTurn', at({ phase: 'step' }));
    history.task();
    history.activity('stepEnvironment', at({ turn: 1 }));
    history.task();
    history.activity('generateTurn', at({ turn: 1, phase: 'step' }));
    history.gives({ ...REF, turn: 1 });
    history.task();
    history.activity('stepEnvironment', ENDED);
    history.gives({ ...REF, turn: 1 });
    history.task();
    await ends(history, { as: 'COMPLETED', result: RESULT });
  });

  test('that is opened behind a generation does not ask for it again', async () => {
    const history = begin();
    opened(history, { progress: at({ phase: 'step' }) });
    history.activity('stepEnvironment', ENDED);
    history.task();
    await ends(history, { as: 'COMPLETED', result: RESULT });
  });

  test('lists nothing that its namespace has no room for', async () => {
    const unlisted = SEARCH_ATTRIBUTES.map(({ name }) => name);
    const history = begin();
    history.activity('openRollout', { ...PLAN, unlisted });
    history.task();
    history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '3600s' });
    history.activity('generateTurn', ENDED);
    history.task();
    history.activity('stepEnvironment', ENDED);
    history.task();
    history.gives(RESULT);
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });

  test('that was never planned lists its end, without what its namespace has no room for', async () => {
    for (const unlisted of [undefined, SEARCH_ATTRIBUTES.map(({ name }) => name)]) {
      const history = begin();
      history.failActivity(history.scheduleActivity('openRollout'), 'StoreFault');
      history.task();
      const failure = { type: 'StoreFault', message: 'gone' };
      const result = { ...RESULT, stop_reason: 'failed' };
      history.activity('finishRollout', { result, failure, facts: null, batch: null, unlisted });
      history.task();
      if (unlisted === undefined) history.add('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', {});
      history.add('WORKFLOW_EXECUTION_FAILED', {});
      await history.replay();
    }
  });

  test('has its changed limits in the next activity', async () => {
    const history = begin();
    opened(history, { plays: 'in_slices' });
    const playing = history.scheduleActivity('playTurns');
    history.signal('limits', { max_rollout_turns: 3 });
    history.completeActivity(playing, at({ turn: 1 }));
    history.task();
    history.activity('playTurns', ENDED);
    history.gives({ ...REF, turn: 1, limits: { max_rollout_turns: 3 } });
    history.task();
    await ends(history, { as: 'COMPLETED', result: RESULT });
  });

  for (const [lost, type] of [
    ['generateTurn', 'EnvironmentStateLost'],
    ['stepEnvironment', 'EnvironmentStateLost'],
    ['generateTurn', 'JournalLost'],
    ['stepEnvironment', 'JournalLost'],
  ] as const) {
    test(`whose ${lost} ended as ${type} is opened again and continues from there`, async () => {
      const history = begin();
      opened(history, {
        progress: at({ turn: 1, phase: lost === 'generateTurn' ? 'generate' : 'step' }),
      });
      history.failActivity(history.scheduleActivity(lost), type);
      history.task();
      history.activity('openRollout', PLAN);
      history.gives(REF);
      history.task();
      history.activity('generateTurn', at({ phase: 'step' }));
      history.gives({ ...REF, turn: 0 });
      history.task();
      history.activity('stepEnvironment', ENDED);
      history.task();
      await ends(history, { as: 'COMPLETED', result: RESULT });
    });
  }

  test('whose journal is lost again and again fails at the third loss', async () => {
    const history = begin();
    opened(history);
    for (let lost = 1; lost <= 3; lost++) {
      history.failActivity(history.scheduleActivity('generateTurn'), 'JournalLost');
      history.task();
      if (lost === 3) break;
      history.activity('openRollout', PLAN);
      history.gives(REF);
      history.task();
    }
    history.activity('finishRollout', {
      result: { ...RESULT, stop_reason: 'failed' },
      failure: null,
      facts: null,
      batch: null,
    });
    history.task();
    await ends(history, { as: 'FAILED' });
  });

  test('that a request makes impossible fails, and nothing is finished', async () => {
    const history = begin();
    history.failActivity(history.scheduleActivity('openRollout'), 'InvalidBatchRequest');
    history.task();
    history.add('WORKFLOW_EXECUTION_FAILED', {});
    await history.replay();
  });

  test('that somebody gives the progress of another run fails at once', async () => {
    const history = writeHistory({ type: 'rollout', workflowId: 'b/0-0' }, REF, { plan: PLAN });
    history.task();
    history.add('WORKFLOW_EXECUTION_FAILED', {});
    await history.replay();
  });
});

describe('what ends a rollout before its turns do', () => {
  /** In the midst of a generation. */
  function generating() {
    const history = begin();
    const timer = opened(history);
    const activity = history.scheduleActivity('generateTurn');
    return { history, timer, activity };
  }

  /** In histories from before, the cancelled activity is waited for; so is the deadline, unless it has passed. */
  function cancels({ history, timer, activity }: ReturnType<typeof generating>, isPast = false) {
    history.task();
    history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId: activity });
    if (!isPast) history.add('TIMER_CANCELED', { timerId: '1', startedEventId: timer });
  }

  const cancelled = ({ history, activity }: ReturnType<typeof generating>): void => {
    history.add('ACTIVITY_TASK_CANCELED', { scheduledEventId: activity });
    history.task();
  };

  /** Finished with a reason; the journal has the last word. */
  async function finishes(
    history: WrittenHistory,
    {
      reason,
      journal = reason,
      failure = null,
      as,
    }: {
      reason: string | null;
      journal?: string | null;
      failure?: object | null;
      as: Parameters<typeof ends>[1]['as'];
    },
  ): Promise<void> {
    const result = { ...RESULT, stop_reason: journal };
    history.activity('finishRollout', { result, failure, facts: null, batch: null });
    history.gives({ stop_reason: reason, failure, rollout: REF });
    history.task();
    await ends(history, { as, ...(as === 'COMPLETED' && { result }) });
  }

  test('is a stop: its activity is cancelled, it is finished as stopped and returns that', async () => {
    const playing = generating();
    playing.history.signal('stop');
    cancels(playing);
    cancelled(playing);
    await finishes(playing.history, { reason: 'stopped', as: 'COMPLETED' });
  });

  test('is a stop also where the worker of its activity is dead', async () => {
    const playing = generating();
    const { history, activity } = playing;
    history.signal('stop');
    cancels(playing);
    const startedEventId = history.add('ACTIVITY_TASK_STARTED', { scheduledEventId: activity });
    history.add('ACTIVITY_TASK_TIMED_OUT', {
      scheduledEventId: activity,
      startedEventId,
      failure: { message: 'silent', timeoutFailureInfo: { timeoutType: 'TIMEOUT_TYPE_HEARTBEAT' } },
      retryState: 'RETRY_STATE_TIMEOUT',
    });
    history.task();
    await finishes(history, { reason: 'stopped', as: 'COMPLETED' });
  });

  test('is a stop or a cancellation at once, whatever its activity says afterwards', async () => {
    const { history, timer, activity } = generating();
    history.signal('stop');
    history.task();
    history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId: activity });
    history.add('TIMER_CANCELED', { timerId: '1', startedEventId: timer });
    history.completeActivity(activity, at({ phase: 'step' }));
    await finishes(history, { reason: 'stopped', as: 'COMPLETED' });
  });

  test('is the first of a stop and a cancellation', async () => {
    const playing = generating();
    playing.history.signal('stop');
    cancels(playing);
    playing.history.add('WORKFLOW_EXECUTION_CANCEL_REQUESTED', {});
    playing.history.task();
    cancelled(playing);
    await finishes(playing.history, { reason: 'stopped', as: 'COMPLETED' });
  });

  test('is nothing where the journal has a valid end: that is returned', async () => {
    const playing = generating();
    playing.history.signal('stop');
    cancels(playing);
    cancelled(playing);
    await finishes(playing.history, { reason: 'stopped', journal: 'terminated', as: 'COMPLETED' });
  });

  test('is its deadline: it fails as a time-out', async () => {
    const playing = generating();
    const { history, timer } = playing;
    history.add('TIMER_FIRED', { timerId: '1', startedEventId: timer });
    cancels(playing, true);
    cancelled(playing);
    await finishes(history, { reason: 'timeout', as: 'FAILED' });
  });

  test('is a cancellation: it is finished all the same, and is cancelled', async () => {
    const playing = generating();
    playing.history.add('WORKFLOW_EXECUTION_CANCEL_REQUESTED', {});
    cancels(playing);
    cancelled(playing);
    await finishes(playing.history, { reason: 'cancelled', as: 'CANCELED' });
  });

  test('is a fault: it is finished with that and fails, and nothing is tried again', async () => {
    const { history, activity } = generating();
    history.failActivity(activity, 'GenerationRejected');
    history.task();
    const failure = { type: 'GenerationRejected', message: 'written' };
    await finishes(history, { reason: 'failed', failure, as: 'FAILED' });
  });

  test('is an operator that fails an activity without a type: the failure has one', async () => {
    const { history, activity } = generating();
    history.failActivity(activity, '');
    history.task();
    const failure = { type: 'Error', message: 'written' };
    await finishes(history, { reason: 'failed', failure, as: 'FAILED' });
  });

  test('is its timeout, where no worker takes it from its task queue', async () => {
    const history = begin();
    history.add('ACTIVITY_TASK_TIMED_OUT', {
      scheduledEventId: history.scheduleActivity('openRollout'),
      failure: { timeoutFailureInfo: { timeoutType: 'TIMEOUT_TYPE_SCHEDULE_TO_START' } },
      retryState: 'RETRY_STATE_NON_RETRYABLE_FAILURE',
    });
    history.task();
    const message = 'rollout_timeout passed before a worker took the rollout from its task queue';
    const failure = { type: 'TimedOut', message };
    await finishes(history, { reason: 'timeout', failure, as: 'FAILED' });
  });
});

test('a rollout that was started by hand is finished as a batch of one, and returns its result', async () => {
  const history = begin();
  history.activity('openRollout', { ...PLAN, is_batch: true, progress: ENDED });
  history.task();
  const batch = { batch_id: 'b', counts: { requested: 1, completed: 1 } };
  history.activity('finishRollout', { result: RESULT, failure: null, facts: null, batch });
  history.gives({ stop_reason: null, failure: null, rollout: REF });
  history.task();
  await ends(history, { as: 'COMPLETED', result: batch });
});
