/** A batch as a workflow: how it starts its children, and that it always closes. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const LIMITS = { max_rollout_turns: 9, max_new_tokens: 9, max_seq_len: 99, rollout_timeout: '1h' };
const PLAN = {
  batch_id: 'b',
  samples: 3,
  num_repeats: 1,
  slices: [{ first: 0, last: 2 }],
  tallies: 0,
  max_in_flight: 2,
  limits: LIMITS,
  min_k: null as { k: number; deadline_ms: number | null } | null,
  refill: null as { max_replacements: number } | null,
  continued: false,
  looks: undefined as true | undefined,
  min_valid: undefined as number | undefined,
};
const VALID = { stop_reason: 'terminated', total_reward: 1, turn_count: 1, total_tokens: 9 };
const STOPPED = { ...VALID, stop_reason: 'stopped' };
const RESULT = { batch_id: 'b', counts: { requested: 3, completed: 3 } };

function begin(): WrittenHistory {
  const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, { samples: [] });
  history.task();
  return history;
}

function planned(change: Partial<typeof PLAN> = {}): WrittenHistory {
  const history = begin();
  history.activity('planBatch', { ...PLAN, ...change });
  history.gives({ samples: [] });
  history.task();
  return history;
}

/** Returns the child's start. */
function starts(history: WrittenHistory, name: string): string {
  const [row, repeat] = name.split('-').map(Number);
  const child = history.startChild('rollout', `b/${name}`);
  history.gives({ batch_id: 'b', row, repeat });
  return child;
}

const runs = (history: WrittenHistory, children: Record<string, string>): void => {
  for (const [name, child] of Object.entries(children))
    history.childStarted(child, { type: 'rollout', workflowId: `b/${name}` });
};

async function closes(
  history: WrittenHistory,
  { stopped = false, as = 'COMPLETED' }: { stopped?: boolean; as?: string } = {},
): Promise<void> {
  history.activity('closeBatch', RESULT);
  history.gives({ batch_id: 'b', stopped });
  history.task();
  if (as === 'COMPLETED') history.gives(RESULT);
  history.add(`WORKFLOW_EXECUTION_${as}`, {});
  await history.replay();
}

describe('a batch looks at its rollouts', () => {
  const SEEN = { turns: 3, tokens: 30, waiting: null, took_ms: 1 };
  const sleeps = (history: WrittenHistory, timerId: string): string =>
    history.add('TIMER_STARTED', { timerId, startToFireTimeout: '5s' });

  test('while they run, and no more when the last one has ended', async () => {
    const history = planned({ max_in_flight: 3, looks: true });
    const timer = sleeps(history, '1');
    const children = ['0-0', '1-0', '2-0'].map((name) => [name, starts(history, name)] as const);
    runs(history, Object.fromEntries(children));
    history.add('TIMER_FIRED', { timerId: '1', startedEventId: timer });
    history.task();
    history.activity('lookAtRollouts', SEEN);
    const running = [0, 1, 2].map((row) => [row, 0]);
    history.gives({ batch_id: 'b', running });
    history.task();
    const next = sleeps(history, '2');
    for (const [, child] of children) history.childCompleted(child, VALID);
    history.task();
    const close = history.scheduleActivity('closeBatch');
    history.gives({ batch_id: 'b', stopped: false });
    history.add('TIMER_CANCELED', { timerId: '2', startedEventId: next });
    history.completeActivity(close, RESULT);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });
});

describe('a batch', () => {
  test('has no more in flight than max_in_flight: the next starts when one has ended', async () => {
    const history = planned();
    const [first, second] = [starts(history, '0-0'), starts(history, '1-0')];
    runs(history, { '0-0': first, '1-0': second });
    history.task();
    // A start that came too early would come before this answer.
    history.update('set_max_in_flight', { max_in_flight: 2 });
    history.updateEnds();
    history.childCompleted(second, VALID);
    history.task();
    const third = starts(history, '2-0');
    runs(history, { '2-0': third });
    history.childCompleted(first, VALID);
    history.task();
    history.childCompleted(third, VALID);
    history.task();
    await closes(history);
  });

  test('starts more at once where max_in_flight is raised', async () => {
    const history = planned({ max_in_flight: 1 });
    const first = starts(history, '0-0');
    runs(history, { '0-0': first });
    history.task();
    history.update('set_max_in_flight', { max_in_flight: 3 });
    history.updateEnds();
    const [second, third] = [starts(history, '1-0'), starts(history, '2-0')];
    runs(history, { '1-0': second, '2-0': third });
    for (const child of [first, second, third]) history.childCompleted(child, VALID);
    history.task();
    await closes(history);
  });

  test('plays all siblings of a rollout that failed, and completes', async () => {
    const history = planned();
    const [first, second] = [starts(history, '0-0'), starts(history, '1-0')];
    runs(history, { '0-0': first, '1-0': second });
    history.childFailed(first, 'GenerationRejected');
    history.task();
    const third = starts(history, '2-0');
    runs(history, { '2-0': third });
    history.childCompleted(second, VALID);
    history.childFailed(third, 'TimedOut');
    history.task();
    await closes(history);
  });

  test('replaces one that failed before it starts another, as often as it may', async () => {
    const history = planned({
      max_in_flight: 1,
      samples: 2,
      slices: [{ first: 0, last: 1 }],
      refill: { max_replacements: 1 },
    });
    const first = starts(history, '0-0');
    runs(history, { '0-0': first });
    history.childFailed(first, 'GenerationRejected');
    history.task();
    const second = history.startChild('rollout', 'b/0-1');
    history.gives({ batch_id: 'b', row: 0, repeat: 1, replaces: 0 });
    runs(history, { '0-1': second });
    history.childFailed(second, 'GenerationRejected');
    history.task();
    const third = starts(history, '1-0');
    runs(history, { '1-0': third });
    history.childCompleted(third, VALID);
    history.task();
    await closes(history);
  });

  test('does not replace one that was stopped or cancelled by hand', async () => {
    const history = planned({
      samples: 2,
      slices: [{ first: 0, last: 1 }],
      refill: { max_replacements: 9 },
    });
    const [first, second] = [starts(history, '0-0'), starts(history, '1-0')];
    runs(history, { '0-0': first, '1-0': second });
    history.childCompleted(first, STOPPED);
    history.add('CHILD_WORKFLOW_EXECUTION_CANCELED', { initiatedEventId: second });
    history.task();
    await closes(history);
  });

  test('that is refused at planning fails, and nothing is closed', async () => {
    const history = begin();
    history.failActivity(history.scheduleActivity('planBatch'), 'InvalidBatchRequest');
    history.task();
    history.add('WORKFLOW_EXECUTION_FAILED', {});
    await history.replay();
  });
});

describe('a batch that is ended', () => {
  test('by a stop starts nothing more, stops those that run, and closes the others as stopped', async () => {
    const history = planned();
    const [first, second] = [starts(history, '0-0'), starts(history, '1-0')];
    runs(history, { '0-0': first, '1-0': second });
    history.signal('stop');
    history.task();
    for (const name of ['0-0', '1-0']) history.signalChild('stop', `b/${name}`);
    for (const child of [first, second]) history.childCompleted(child, STOPPED);
    history.task();
    await closes(history, { stopped: true });
  });

  test('by a stop while a child starts stops that, too', async () => {
    const history = planned({ max_in_flight: 1 });
    const first = starts(history, '0-0');
    history.signal('stop');
    history.task();
    runs(history, { '0-0': first });
    history.task();
    history.signalChild('stop', 'b/0-0');
    history.childCompleted(first, STOPPED);
    history.task();
    await closes(history, { stopped: true });
  });

  test('by a stop before it was planned closes nothing', async () => {
    const history = begin();
    const planning = history.scheduleActivity('planBatch');
    history.signal('stop');
    history.task();
    history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId: planning });
    history.add('WORKFLOW_EXECUTION_FAILED', {});
    await history.replay();
  });

  test('by its deadline stops those that run, and closes the others as stopped', async () => {
    const history = planned({ max_in_flight: 1, min_k: { k: 1, deadline_ms: 60_000 } });
    const deadline = history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '60s' });
    const first = starts(history, '0-0');
    runs(history, { '0-0': first });
    history.add('TIMER_FIRED', { timerId: '1', startedEventId: deadline });
    history.task();
    history.signalChild('stop', 'b/0-0');
    history.childCompleted(first, STOPPED);
    history.task();
    await closes(history, { stopped: true });
  });

  test('by cancellation waits for those that run, starts nothing more, writes its files and is cancelled', async () => {
    const history = planned();
    const children = { '0-0': starts(history, '0-0'), '1-0': starts(history, '1-0') };
    runs(history, children);
    history.add('WORKFLOW_EXECUTION_CANCEL_REQUESTED', {});
    history.task();
    for (const name of Object.keys(children))
      history.add('REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED', {
        namespace: 'default',
        workflowExecution: { workflowId: `b/${name}` },
        childWorkflowOnly: true,
      });
    for (const initiatedEventId of Object.values(children))
      history.add('CHILD_WORKFLOW_EXECUTION_CANCELED', { initiatedEventId });
    history.task();
    await closes(history, { as: 'CANCELED' });
  });
});

describe('a batch with fewer valid rollouts than its plan asks for', () => {
  const NONE = { ...RESULT, counts: { requested: 1, completed: 0 }, files: { failures: '/f' } };
  const ONE = { samples: 1, slices: [{ first: 0, last: 0 }], min_valid: 1 };
  const closedAs = async (history: WrittenHistory, ended: string): Promise<void> => {
    history.add(`WORKFLOW_EXECUTION_${ended}`, {});
    await history.replay();
  };
  const stopped = (): WrittenHistory => {
    const history = planned(ONE);
    const only = starts(history, '0-0');
    runs(history, { '0-0': only });
    history.signal('stop');
    history.task();
    history.signalChild('stop', 'b/0-0');
    history.childCompleted(only, STOPPED);
    history.task();
    history.activity('closeBatch', NONE);
    history.task();
    return history;
  };

  test('fails once its files are written', async () => {
    const history = planned(ONE);
    const only = starts(history, '0-0');
    runs(history, { '0-0': only });
    history.childFailed(only, 'EnvironmentFailed');
    history.task();
    history.activity('closeBatch', NONE);
    history.task();
    await closedAs(history, 'FAILED');
  });

  test('completes behind a stop: who stops it takes what there is', async () => {
    const history = stopped();
    await closedAs(history, 'COMPLETED');
  });
});

describe('a batch with a second input', () => {
  const RESTART = { restart: true };
  const started = (options: unknown, first?: string): WrittenHistory => {
    const start = { type: 'rolloutBatch', workflowId: 'b', ...(first !== undefined && { first }) };
    const history = writeHistory(start, { samples: [] }, options);
    history.task();
    return history;
  };
  const refusedBy = async (history: WrittenHistory): Promise<void> => {
    history.failActivity(history.scheduleActivity('planBatch'), 'InvalidBatchRequest');
    history.task();
    history.add('WORKFLOW_EXECUTION_FAILED', {});
    await history.replay();
  };

  test('restart has its planning remove what was played', async () => {
    const history = started(RESTART);
    history.gives({ samples: [] });
    history.gives(RESTART);
    await refusedBy(history);
  });

  test('restart does not remove what this start has played: after a reset it continues', async () => {
    const history = started(RESTART, 'an-earlier-run');
    history.gives({ samples: [] });
    history.keeps(RESTART);
    await refusedBy(history);
  });

  test('of another kind is refused before anything is planned', async () => {
    for (const options of [{ restart: 'yes' }, { restart: true, more: 1 }, 7, {}]) {
      const history = started(options);
      history.add('WORKFLOW_EXECUTION_FAILED', {});
      await history.replay();
    }
  });
});

test('a client that asks where samples are is answered by an activity', async () => {
  const history = writeHistory({ type: 'inputs', workflowId: 'inputs/1' }, { token: null });
  history.task();
  const inputs = { inputs_dir: '/in', worker: '1@host', most_characters: 9, sees: false };
  history.activity('findInputs', inputs);
  history.gives({ token: null });
  history.task();
  history.gives(inputs);
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
});
