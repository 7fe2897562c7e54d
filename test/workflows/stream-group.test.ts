/** A stream's group as a workflow: what it says of its members when all have ended. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const GROUP = {
  stream_id: 's',
  group: 3,
  num_repeats: 2,
  max_replacements: 0,
  filter: 'zero_variance',
};
const VALID = { stop_reason: 'terminated', total_reward: 1, turn_count: 1, total_tokens: 9 };

/** A group whose two members run. */
function running(): { history: WrittenHistory; members: [string, string] } {
  const history = writeHistory({ type: 'rolloutGroup', workflowId: 's/3', parent: 's' }, GROUP);
  history.task();
  const ids = ['s/3-0', 's/3-1'];
  const members = ids.map((id) => history.startChild('rollout', id)) as [string, string];
  for (const [i, workflowId] of ids.entries())
    history.childStarted(members[i]!, { type: 'rollout', workflowId });
  history.task();
  return { history, members };
}

/** It puts this end, and tells the stream what the store has. */
async function ends(history: WrittenHistory, end: Record<string, unknown>): Promise<void> {
  history.task();
  history.gives({ ...end, stream_id: 's', group: 3 });
  history.activity('endGroup', { ...end, group: 3 });
  history.task();
  history.gives({ ...end, group: 3 });
  const initiatedEventId = history.signalOther('group', 's');
  history.add('EXTERNAL_WORKFLOW_EXECUTION_SIGNALED', {
    namespace: 'default',
    initiatedEventId,
    workflowExecution: { workflowId: 's' },
  });
  history.task();
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

describe('a group', () => {
  test('is untrained if no token of its valid members trains, whatever their rewards', async () => {
    const { history, members } = running();
    history.childCompleted(members[0], { ...VALID, untrained: true });
    history.childCompleted(members[1], { ...VALID, total_reward: 0, untrained: true });
    await ends(history, { outcome: 'untrained', valid: 2, members: 2 });
  });

  test('says why its members failed, with the first of each', async () => {
    const { history, members } = running();
    history.childFailed(members[0], 'EnvironmentFailed');
    history.childFailed(members[1], 'EnvironmentFailed');
    const failures = { EnvironmentFailed: { rollouts: 2, message: 'written', example: 's/3-0' } };
    await ends(history, { outcome: 'failed', valid: 0, members: 2, failures });
  });

  test('says it, too, of members that were truncated, where the request drops these', async () => {
    const { history, members } = running();
    history.childCompleted(members[0], VALID);
    history.childCompleted(members[1], { ...VALID, rollout_id: 's/3-1', dropped: true });
    const message = 'it was truncated, and the request drops such rollouts (overlong)';
    const failures = { Overlong: { rollouts: 1, message, example: 's/3-1' } };
    await ends(history, { outcome: 'failed', valid: 1, members: 2, failures });
  });
});
