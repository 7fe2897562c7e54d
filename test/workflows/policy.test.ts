/** The policy of a service as a workflow: which replicas it touches, in which order, and what makes it touch them. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const A = 'http://a/v1';
const B = 'http://b/v1';
const C = 'http://c/v1';

const entry = (state: string, version: number | null) => ({
  state,
  version,
  epoch: 0,
  paused_until: null,
  fault: null,
});

let epoch = 0;
/** A record as workflows see it; each is newer than the one before. */
const view = (version: number | null, replicas: Record<string, ReturnType<typeof entry>>) => ({
  epoch: (epoch += 1),
  version,
  target: 1,
  weights: {},
  replicas,
});

const fleet = (...states: [string, number | null][]) =>
  Object.fromEntries(
    [A, B, C].slice(0, states.length).map((url, i) => [url, entry(...states[i]!)]),
  );

const OLD: [string, number | null] = ['current', null];
const NEW: [string, number | null] = ['current', 1];

const NOTHING = { ...view(null, {}), epoch: -1 };
const survey = (record: unknown = NOTHING) => ({ heartbeat_ms: 10_000, view: record });
/** An update that is to be brought to these replicas. */
const planned = (
  replicas: string[],
  { at_once, quorum = null, ...rest }: { at_once: number; quorum?: number | null; view: unknown },
) => ({
  ...rest,
  brings: { replicas, version: 1, mode: 'keep', drain_limit: '1m', quorum, at_once, notes: [] },
});
const updated = (record: unknown) => ({ paused_s: 0.5, view: record });
const INPUT = { service: 'default' };
/** Its first task, in which it begins to listen. */
const SINCE = Date.UTC(2026, 0, 1) + 200;
const order = (replica: string) => ({
  ...INPUT,
  replica,
  version: 1,
  mode: 'keep',
  drain_limit: '1m',
});

/** Up to its wait for updates. */
function begin(record?: unknown): WrittenHistory {
  const history = writeHistory({ type: 'policy', workflowId: 'policy/default' }, INPUT);
  history.task();
  history.activity('takeOrder', survey(record));
  history.gives({ ...INPUT, name: 'survey' });
  history.task();
  return history;
}

/** An update that is settled like this. */
function publish(history: WrittenHistory, plan: unknown): void {
  const input = { version: 1, weights: { kind: 'checkpoint', path: '/w' } };
  history.task();
  history.update('publish', input);
  history.activity('takeOrder', plan);
  history.gives({ ...INPUT, name: 'publish', input, heard: { since: SINCE, last: [] } });
  history.task();
}

/** The record decides; then the policy looks after its replicas again. */
function concludes(history: WrittenHistory, record: { version: number | null }): void {
  history.activity('takeOrder', { view: record });
  history.task();
  history.scheduleActivity('takeOrder');
  history.updateEnds();
}

describe('an update', () => {
  test('is brought to all replicas at once', async () => {
    const history = begin();
    publish(history, planned([A, B], { at_once: 2, view: view(null, fleet(OLD, OLD)) }));
    const first = history.scheduleActivity('bringReplica');
    history.gives(order(A));
    const second = history.scheduleActivity('bringReplica');
    history.gives(order(B));
    history.completeActivity(first, updated(view(null, fleet(NEW, OLD))));
    history.task();
    history.completeActivity(second, updated(view(null, fleet(NEW, NEW))));
    history.task();
    concludes(history, view(1, fleet(NEW, NEW)));
    await history.replay();
  });

  test('that is rolling is brought to the next replica when the one before serves it', async () => {
    const history = begin();
    publish(history, planned([A, B], { at_once: 1, view: view(null, fleet(OLD, OLD)) }));
    history.activity('bringReplica', updated(view(null, fleet(NEW, OLD))));
    history.gives(order(A));
    history.task();
    history.activity('bringReplica', updated(view(null, fleet(NEW, NEW))));
    history.gives(order(B));
    history.task();
    concludes(history, view(1, fleet(NEW, NEW)));
    await history.replay();
  });

  test('whose quorum is out of reach touches no further replica, and fails', async () => {
    const history = begin();
    publish(
      history,
      planned([A, B, C], { at_once: 1, quorum: 3, view: view(null, fleet(OLD, OLD, OLD)) }),
    );
    history.failActivity(history.scheduleActivity('bringReplica'), 'PolicyUpdateFailed');
    history.task();
    concludes(history, view(null, fleet(['unknown', null], OLD, OLD)));
    await history.replay();
  });

  test('continues without a replica that its quorum can spare', async () => {
    const history = begin();
    publish(history, planned([A, B], { at_once: 1, quorum: 1, view: view(null, fleet(OLD, OLD)) }));
    history.failActivity(history.scheduleActivity('bringReplica'), 'PolicyUpdateFailed');
    history.task();
    history.activity('bringReplica', updated(view(null, fleet(['unknown', null], NEW))));
    history.gives(order(B));
    history.task();
    concludes(history, view(1, fleet(['unknown', null], NEW)));
    await history.replay();
  });

  test('that is refused touches nothing', async () => {
    const history = begin();
    history.task();
    history.update('publish', { version: 0 });
    history.failActivity(history.scheduleActivity('takeOrder'), 'PolicyUpdateFailed');
    history.task();
    history.scheduleActivity('takeOrder');
    history.updateEnds();
    await history.replay();
  });
});

describe('a replica that does not serve', () => {
  const LOST = fleet(NEW, ['unknown', 1]);
  const restoring = { ...INPUT, replica: B, version: null, mode: 'abort' };

  test('is given the version of the record again by itself', async () => {
    const history = begin(view(1, LOST));
    history.activity('bringReplica', updated(view(1, fleet(NEW, NEW))));
    history.gives(restoring);
    history.task();
    await history.replay();
  });

  test('is tried again after 5 s, then after 10 s', async () => {
    const history = begin(view(1, LOST));
    for (const [timerId, startToFireTimeout] of [
      ['1', '5s'],
      ['2', '10s'],
    ] as const) {
      history.failActivity(history.scheduleActivity('bringReplica'), 'PolicyUpdateFailed');
      history.gives(restoring);
      history.task();
      const startedEventId = history.add('TIMER_STARTED', { timerId, startToFireTimeout });
      history.add('TIMER_FIRED', { timerId, startedEventId });
      history.task();
    }
    history.scheduleActivity('bringReplica');
    await history.replay();
  });

  test('waits while a trainer has the others, and is given the version of the record after that', async () => {
    const holder = { name: 'grpo', incarnation: 'one' };
    const open = {
      nonce: 'n',
      version: 2,
      holder,
      paused_until: Date.UTC(2100, 0),
      stall_ms: 120_000,
      engines: [A],
    };
    const history = begin({ ...view(1, LOST), ticket: open });
    const timer = { timerId: '1', startToFireTimeout: '120s' };
    const startedEventId = history.add('TIMER_STARTED', timer);
    history.signal('recover');
    history.task();
    history.add('TIMER_CANCELED', { timerId: '1', startedEventId });
    history.activity('takeOrder', survey(view(1, LOST)));
    history.task();
    history.scheduleActivity('bringReplica');
    history.gives(restoring);
    await history.replay();
  });

  test('is looked for again when a worker asks for it', async () => {
    const history = begin(view(1, fleet(NEW, NEW)));
    history.signal('recover');
    history.task();
    history.activity('takeOrder', survey(view(1, LOST)));
    history.task();
    history.scheduleActivity('bringReplica');
    history.gives(restoring);
    await history.replay();
  });
});

describe('a sign of life of who holds the service', () => {
  const HOLDER = { name: 'math-1', incarnation: 'one' };

  test('is told to the next update, and wakes nothing', async () => {
    const history = begin();
    history.task();
    history.signal('holding', { holder: HOLDER });
    history.task();
    history.task();
    const input = { version: 1, weights: { kind: 'checkpoint', path: '/w' } };
    history.update('publish', input);
    history.activity('takeOrder', planned([], { at_once: 0, view: view(1, fleet(NEW)) }));
    history.gives({
      ...INPUT,
      name: 'publish',
      input,
      heard: { since: SINCE, last: [{ ...HOLDER, at: SINCE + 1300 }] },
    });
    history.task();
    history.scheduleActivity('takeOrder');
    history.gives({ ...INPUT, name: 'conclude', input: { quorum: null } });
    await history.replay();
  });

  test('is kept by the next run', async () => {
    const heard = { since: 5, last: [{ ...HOLDER, at: 7 }] };
    const given = { type: 'policy', workflowId: 'policy/default', before: 'run-before' };
    const history = writeHistory(given, { ...INPUT, heard });
    history.task();
    history.activity('takeOrder', survey());
    history.task({ suggestContinueAsNew: true });
    history.add('WORKFLOW_EXECUTION_CONTINUED_AS_NEW', { workflowType: { name: 'policy' } });
    history.gives({ ...INPUT, updates: [], heard });
    await history.replay();
  });
});

test('a release is asked of its activity, and answered with what is served', async () => {
  const history = begin();
  history.task();
  const input = { holder: { name: 'math-1' } };
  history.update('release', input);
  history.activity('takeOrder', { view: view(1, fleet(NEW)) });
  history.gives({ ...INPUT, name: 'release', input, heard: { since: SINCE, last: [] } });
  history.task();
  history.scheduleActivity('takeOrder');
  history.updateEnds();
  await history.replay();
});

test('a long history continues in a new run, with the last updates', async () => {
  const updates = [{ version: 1, at: 0, paused_s: 1, total_s: 2, fault: null }];
  const input = { ...INPUT, updates };
  const given = { type: 'policy', workflowId: 'policy/default', before: 'run-before' };
  const history = writeHistory(given, input);
  history.task();
  history.activity('takeOrder', survey());
  history.task({ suggestContinueAsNew: true });
  history.add('WORKFLOW_EXECUTION_CONTINUED_AS_NEW', { workflowType: { name: 'policy' } });
  history.gives({ ...input, heard: { since: SINCE, last: [] } });
  await history.replay();
});
