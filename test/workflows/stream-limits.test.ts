/** Limits of a stream that change several times while earlier changes are on their way to its groups. */
import { test } from 'node:test';
import { pacingFrom } from '../../src/model/workflow-safe/stream/state.js';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const GROUPS = [0, 1];
const PLAN = {
  stream_id: 's',
  service: null,
  pacing: {
    groups_per_step: 2,
    max_lag: 0,
    versions_per_step: 1,
    when_stale: 'wait',
    num_repeats: 1,
    max_in_flight: 2,
    samples: 8,
    epochs: null,
  },
  limits: { max_rollout_turns: 100, max_new_tokens: 512, max_seq_len: 4096, rollout_timeout: '1h' },
  filter: null,
  max_replacements: 0,
  keep_steps: null,
  found: {
    pacing: pacingFrom({
      admitted: 2,
      groups: GROUPS.map((group) => ({ group, born: null, state: 'running', in_flight: 1 })),
    }),
    is_published: false,
    is_versioned: false,
    kept_from: 0,
    out: [],
    admitted_before: 0,
  },
};

/** Its groups run. */
function running(): WrittenHistory {
  const history = writeHistory({ type: 'rolloutStream', workflowId: 's' }, {});
  history.task();
  history.activity('planStream', PLAN);
  history.task();
  const children = GROUPS.map((group) => history.startChild('rolloutGroup', `s/${group}`));
  for (const [i, child] of children.entries())
    history.childStarted(child, { type: 'rolloutGroup', workflowId: `s/${i}` });
  history.task();
  return history;
}

const announces = (history: WrittenHistory): string[] =>
  GROUPS.map((group) => history.signalOther('limits', `s/${group}`));

/** Another workflow has received the signal. */
const arrives = (history: WrittenHistory, initiatedEventId: string): void => {
  history.add('EXTERNAL_WORKFLOW_EXECUTION_SIGNALED', {
    initiatedEventId,
    namespace: 'default',
    workflowExecution: { workflowId: 's/0' },
  });
};

/** Each update is taken in a task of its own. */
const changes = (history: WrittenHistory, change: object): void => {
  history.task();
  history.update('set_limits', change);
  history.activity('setLimits', change);
  history.task();
};

test('changes that come while others are on their way go to the groups in one further round', async () => {
  const history = running();
  changes(history, { max_rollout_turns: 9 });
  const first = announces(history);
  history.updateEnds();
  changes(history, { max_rollout_turns: 8 });
  history.updateEnds();
  changes(history, { max_new_tokens: 32 });
  history.updateEnds();
  for (const signal of first) arrives(history, signal);
  history.task();
  const second = announces(history);
  GROUPS.forEach(() => {
    history.gives({ max_rollout_turns: 8, max_new_tokens: 32 });
  });
  for (const signal of second) arrives(history, signal);
  await history.replay();
});
