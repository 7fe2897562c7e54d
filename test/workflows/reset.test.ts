/** Workflows that an operator resets: the store may be ahead of their histories. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const PLACE = { batch_id: 'b', row: 0, repeat: 0 };
const SLICE = {
  batch_id: 'b',
  first: 0,
  last: 0,
  num_repeats: 1,
  max_in_flight: 1,
  tallies: 0,
  k: null,
};
const GROUP = { stream_id: 's', group: 3, num_repeats: 1, max_replacements: 0, filter: null };

interface Kind {
  type: string;
  workflowId: string;
  parent?: string;
  input: unknown;
  /** Its first commands. */
  begins: (history: WrittenHistory) => void;
}

const starts =
  (child: string) =>
  (history: WrittenHistory): void => {
    const started = history.startChild('rollout', child);
    history.childStarted(started, { type: 'rollout', workflowId: child });
  };
const asks =
  (activity: string) =>
  (history: WrittenHistory): void => {
    history.scheduleActivity(activity);
  };

const KINDS: Kind[] = [
  { type: 'rollout', workflowId: 'b/0-0', parent: 'b', input: PLACE, begins: asks('openRollout') },
  { type: 'rolloutBatch', workflowId: 'b', input: { samples: [] }, begins: asks('planBatch') },
  { type: 'rolloutSlice', workflowId: 'b/rows-0-0', input: SLICE, begins: starts('b/0-0') },
  { type: 'rolloutGroup', workflowId: 's/3', input: GROUP, begins: starts('s/3-0') },
  { type: 'rolloutStream', workflowId: 's', input: { samples: [] }, begins: asks('planStream') },
  {
    type: 'policy',
    workflowId: 'policy/default',
    input: { service: 'default' },
    begins: asks('takeOrder'),
  },
];

describe('reset into its middle', () => {
  for (const { input, begins, ...workflow } of KINDS)
    test(`${workflow.type} continues as a new run with its input alone`, async () => {
      const history = writeHistory({ ...workflow, before: 'run-before' }, input);
      history.task();
      begins(history);
      history.taskFails('RESET_WORKFLOW');
      history.task();
      history.gives(input);
      history.add('WORKFLOW_EXECUTION_CONTINUED_AS_NEW', {
        workflowType: { name: workflow.type },
      });
      await history.replay();
    });
});

test('reset to its first task it goes on in the same run', async () => {
  const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, { samples: [] });
  history.taskFails('RESET_WORKFLOW');
  history.task();
  history.scheduleActivity('planBatch');
  await history.replay();
});

test('a failed task that is no reset changes nothing', async () => {
  const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, { samples: [] });
  history.task();
  history.scheduleActivity('planBatch');
  history.taskFails('WORKFLOW_WORKER_UNHANDLED_FAILURE');
  history.signal('waiting', null);
  history.task();
  await history.replay();
});
