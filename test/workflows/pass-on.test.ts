/** What becomes of the share of a slice that has ended. */
import { describe, test } from 'node:test';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const ROWS = [0, 1, 2].map((row) => ({ first: row * 4, last: row * 4 + 3 }));
const IDS = ROWS.map(({ first, last }) => `b/rows-${first}-${last}`);
const TALLY = { done: 4, running: 0, valid: 4, turns: 4, tokens: 40, reward_sum: 4 };

/** Three slices of four; the third has started all of its rollouts and has the least in flight. */
function untilTheFirstEnds(): { history: WrittenHistory; slices: string[] } {
  const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, {});
  history.task();
  history.activity('planBatch', {
    batch_id: 'b',
    samples: 12,
    num_repeats: 1,
    slices: ROWS,
    tallies: 2,
    max_in_flight: 5,
    limits: {},
    min_k: null,
    refill: null,
    continued: false,
  });
  history.task();
  const slices = IDS.map((id) => history.startChild('rolloutSlice', id));
  for (const [i, workflowId] of IDS.entries())
    history.childStarted(slices[i]!, { type: 'rolloutSlice', workflowId });
  history.signal('tally', { first: 8, tally: { ...TALLY, done: 3, running: 1 } });
  history.task();
  history.childCompleted(slices[0]!, TALLY);
  history.task();
  return { history, slices };
}

async function ends({ history, slices }: ReturnType<typeof untilTheFirstEnds>): Promise<void> {
  history.childCompleted(slices[2]!, TALLY);
  history.task();
  history.signalChild('share', IDS[1]!);
  history.childCompleted(slices[1]!, TALLY);
  history.task();
  history.activity('closeBatch', { counts: { requested: 12, completed: 12 } });
  history.task();
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

describe('the share of a slice that has ended', () => {
  test('goes to one that has rollouts to start rather than to one that has less', async () => {
    const batch = untilTheFirstEnds();
    const { history } = batch;
    const initiatedEventId = history.signalChild('share', IDS[1]!);
    // The next one waits for its arrival.
    history.add('EXTERNAL_WORKFLOW_EXECUTION_SIGNALED', {
      initiatedEventId,
      namespace: 'default',
      workflowExecution: { workflowId: IDS[1]! },
    });
    await ends(batch);
  });
});
