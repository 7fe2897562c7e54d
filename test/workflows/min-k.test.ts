/** Groups that have enough valid rollouts before all their members have ended. */
import { describe, test } from 'node:test';
import { writeHistory } from '../harness/written-history.js';

const VALID = { stop_reason: 'terminated', total_reward: 1, turn_count: 1, total_tokens: 9 };
const STOPPED = { ...VALID, stop_reason: 'stopped' };

describe('under min_k', () => {
  test('a group that has k valid rollouts stops its own, and no other', async () => {
    const history = writeHistory(
      { type: 'rolloutSlice', workflowId: 'b/rows-0-1', parent: 'b' },
      { batch_id: 'b', first: 0, last: 1, num_repeats: 3, max_in_flight: 2, tallies: 0, k: 1 },
    );
    const start = (name: string): string => history.startChild('rollout', `b/${name}`);
    const started = (child: string, name: string): void => {
      history.childStarted(child, { type: 'rollout', workflowId: `b/${name}` });
    };
    history.task();
    const [first, second] = [start('0-0'), start('0-1')];
    started(first, '0-0');
    started(second, '0-1');
    history.task();
    history.childCompleted(first, VALID);
    history.task();
    // 0-1 is stopped, 0-2 never starts, and the other group begins.
    history.signalChild('stop', 'b/0-1');
    const third = start('1-0');
    started(third, '1-0');
    history.childCompleted(second, STOPPED);
    history.task();
    const fourth = start('1-1');
    started(fourth, '1-1');
    history.task();
    // It gives no row.
    history.childCompleted(fourth, { ...VALID, stop_reason: 'truncated', dropped: true });
    history.task();
    const fifth = start('1-2');
    started(fifth, '1-2');
    history.task();
    history.childCompleted(fifth, VALID);
    history.task();
    history.signalChild('stop', 'b/1-0');
    history.childCompleted(third, STOPPED);
    history.task();
    history.activity('closeSlice', null);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });

  test('a rollout that is valid beyond k stops no other', async () => {
    const history = writeHistory(
      { type: 'rolloutSlice', workflowId: 'b/rows-0-0', parent: 'b' },
      { batch_id: 'b', first: 0, last: 0, num_repeats: 3, max_in_flight: 3, tallies: 0, k: 1 },
    );
    history.task();
    const ids = [0, 1, 2].map((repeat) => `b/0-${repeat}`);
    const children = ids.map((id) => history.startChild('rollout', id));
    for (const [i, workflowId] of ids.entries())
      history.childStarted(children[i]!, { type: 'rollout', workflowId });
    history.task();
    history.childCompleted(children[0]!, VALID);
    history.task();
    for (const id of ids.slice(1)) history.signalChild('stop', id);
    // It ended just before it was told.
    history.childCompleted(children[1]!, VALID);
    history.task();
    history.childCompleted(children[2]!, STOPPED);
    history.task();
    history.activity('closeSlice', null);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });
});
