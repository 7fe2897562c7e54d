/** A batch that runs as slices: what each slice is given, and that none of them costs the others anything. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { sharesOf } from '../../src/workflows/children/open-slices.js';
import { createTallies } from '../../src/workflows/children/run-slices.js';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

const SLICES = [
  { first: 0, last: 3 },
  { first: 4, last: 6 },
];
const IDS = ['b/rows-0-3', 'b/rows-4-6'] as const;
const PLAN = {
  batch_id: 'b',
  samples: 7,
  num_repeats: 2,
  slices: SLICES,
  tallies: 3,
  max_in_flight: 5,
  limits: {},
  min_k: null,
  refill: { max_replacements: 3 },
  continued: false,
};
const sumOf = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0);
const TALLY = { done: 8, running: 0, valid: 8, turns: 8, tokens: 80, reward_sum: 8 };
const RESULT = { batch_id: 'b', counts: { requested: 14, completed: 14 } };

/** Each slice with its own rows and its share of what may be in flight and replaced. */
function sliced({ areStarted = true, max_in_flight = 5, in_flight = [3, 2] } = {}) {
  const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, {});
  history.task();
  history.activity('planBatch', { ...PLAN, max_in_flight });
  history.task();
  const shares = [2, 1].map((max_replacements, i) => ({
    max_in_flight: in_flight[i],
    max_replacements,
  }));
  const slices = IDS.map((id, i) => {
    const child = history.startChild('rolloutSlice', id);
    history.gives({
      batch_id: 'b',
      ...SLICES[i],
      num_repeats: 2,
      tallies: 3,
      k: null,
      ...shares[i],
    });
    return child;
  });
  if (areStarted)
    slices.forEach((child, i) => {
      started(history, { child, id: IDS[i]! });
    });
  return { history, first: slices[0]!, second: slices[1]! };
}

const started = (history: WrittenHistory, { child, id }: { child: string; id: string }): void => {
  history.childStarted(child, { type: 'rolloutSlice', workflowId: id });
};

/** The slices have received these signals, one each. */
const arrive = (history: WrittenHistory, signals: readonly string[]): void => {
  for (const [i, initiatedEventId] of signals.entries())
    history.add('EXTERNAL_WORKFLOW_EXECUTION_SIGNALED', {
      initiatedEventId,
      namespace: 'default',
      workflowExecution: { workflowId: IDS[i]! },
    });
};

async function closes(history: WrittenHistory, stopped = false): Promise<void> {
  history.task();
  history.activity('closeBatch', RESULT);
  history.gives({ batch_id: 'b', stopped });
  history.task();
  history.gives(RESULT);
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

async function oneThenTheOther(
  history: WrittenHistory,
  [first, second]: [string, string],
): Promise<void> {
  history.childCompleted(first, TALLY);
  history.task();
  history.signalChild('share', IDS[1]);
  history.childCompleted(second, TALLY);
  await closes(history);
}

describe('a batch of slices', () => {
  test('gives a slice no more than it can use while another has less', async () => {
    const { history, first, second } = sliced({
      max_in_flight: 14,
      in_flight: [8, 6],
    });
    await oneThenTheOther(history, [first, second]);
  });

  test('shares out all of max_in_flight, as equally as the slices can use it', () => {
    const slices = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(slices, fc.integer({ min: 0, max: 3000 }), (rollouts, whole) => {
        const shares = sharesOf(whole, rollouts);
        const all = sumOf(rollouts);
        assert.equal(sumOf(shares), Math.min(whole, all));
        const most = Math.max(...shares);
        for (const [i, share] of shares.entries())
          assert.ok(
            share === rollouts[i] || share >= most - 1,
            `${share} of ${String(rollouts[i])}, another has ${most}`,
          );
      }),
    );
  });

  test('counts no fewer than before, in whatever order the reports of its slices arrive', () => {
    const reports = [13, 26, 39].flatMap((done) =>
      [0, 128].map((first) => ({
        first,
        tally: { ...TALLY, done, valid: done - 1, failures: {} },
      })),
    );
    const orders = fc.shuffledSubarray(reports, { minLength: reports.length });
    fc.assert(
      fc.property(orders, (arrived) => {
        const tallies = createTallies();
        const sums = arrived.map(({ first, tally }) => tallies.add(first, tally));
        const done = sums.map((sum) => sum.done);
        assert.deepEqual(
          done,
          done.toSorted((a, b) => a - b),
        );
        assert.deepEqual([sums.at(-1)?.done, sums.at(-1)?.valid], [78, 76]);
      }),
    );
  });

  test('passes on what a slice that has ended had in flight and has not replaced', async () => {
    const { history, first, second } = sliced();
    history.childCompleted(first, { ...TALLY, replacements: 1 });
    history.task();
    history.signalChild('share', IDS[1]);
    history.gives(5);
    history.gives(2);
    history.childCompleted(second, TALLY);
    await closes(history);
  });

  test('waits for the others if one has failed, and closes, without the replacements of the failed one', async () => {
    const { history, first, second } = sliced();
    history.childFailed(first, 'StoreFault');
    history.task();
    history.signalChild('share', IDS[1]);
    history.gives(5);
    history.gives(1);
    history.childCompleted(second, TALLY);
    await closes(history);
  });

  test('that is stopped stops each of them, passes nothing on, and closes the others as stopped', async () => {
    const { history, first, second } = sliced();
    history.signal('stop');
    history.task();
    for (const id of IDS) history.signalChild('stop', id);
    for (const child of [first, second]) history.childCompleted(child, TALLY);
    await closes(history, true);
  });

  test('tells a slice that is still starting what was shared out anew and which limits were changed', async () => {
    const { history, first, second } = sliced({ areStarted: false });
    history.task();
    history.update('set_max_in_flight', { max_in_flight: 8 });
    history.updateEnds();
    history.task();
    history.update('set_limits', { max_rollout_turns: 2 });
    history.activity('setLimits', { max_rollout_turns: 2 });
    history.task();
    history.updateEnds();
    for (const [i, child] of [first, second].entries()) started(history, { child, id: IDS[i]! });
    history.task();
    const told = IDS.map((id) => {
      const share = history.signalChild('share', id);
      history.gives(4);
      history.signalChild('limits', id);
      history.gives({ max_rollout_turns: 2 });
      return share;
    });
    arrive(history, told);
    history.childCompleted(first, TALLY);
    history.task();
    history.signalChild('share', IDS[1]);
    history.childCompleted(second, TALLY);
    await closes(history);
  });
});

describe('a slice whose share changes again at once', () => {
  test('is told when the change before has reached it, so that the last one stays (temporalio/sdk-typescript#274)', async () => {
    const { history, first, second } = sliced();
    history.task();
    history.update('set_max_in_flight', { max_in_flight: 8 });
    const signalled = IDS.map((id) => history.signalChild('share', id));
    history.gives(4);
    history.gives(4);
    history.updateEnds();
    history.task();
    history.update('set_max_in_flight', { max_in_flight: 6 });
    history.updateEnds();
    arrive(history, signalled);
    history.task();
    for (const id of IDS) {
      history.signalChild('share', id);
      history.gives(3);
    }
    for (const child of [first, second]) history.childCompleted(child, TALLY);
    await closes(history);
  });
});

describe('a slice', () => {
  const INPUT = {
    batch_id: 'b',
    first: 4,
    last: 5,
    num_repeats: 2,
    max_in_flight: 9,
    tallies: 2,
    k: null,
  };
  const NAMES = ['4-0', '4-1', '5-0', '5-1'] as const;
  const VALID = { stop_reason: 'max_turns', total_reward: 2, turn_count: 3, total_tokens: 9 };

  function running() {
    const workflow = { type: 'rolloutSlice', workflowId: 'b/rows-4-5', parent: 'b' };
    const history = writeHistory(workflow, INPUT);
    history.task();
    const children = NAMES.map((name) => history.startChild('rollout', `b/${name}`));
    children.forEach((child, i) => {
      history.childStarted(child, { type: 'rollout', workflowId: `b/${NAMES[i]!}` });
    });
    history.task();
    return { history, children };
  }

  async function ends(
    history: WrittenHistory,
    {
      stopped = false,
      tally,
      as = 'COMPLETED',
    }: { stopped?: boolean; tally?: object; as?: string },
  ): Promise<void> {
    history.activity('closeSlice', null);
    history.gives({ batch_id: 'b', first: 4, last: 5, stopped });
    history.task();
    if (tally !== undefined) history.gives(tally);
    history.add(`WORKFLOW_EXECUTION_${as}`, {});
    await history.replay();
  }

  test('plays each repeat of its own rows, reports as often as it should, and returns its counts', async () => {
    const { history, children } = running();
    const tally = { done: 2, running: 2, valid: 2, turns: 6, tokens: 18, reward_sum: 4 };
    for (const child of children.slice(0, 2)) history.childCompleted(child, VALID);
    history.task();
    history.signalOther('tally', 'b');
    history.gives({ first: 4, tally, ended: [4] });
    history.childCompleted(children[2]!, VALID);
    history.childFailed(children[3]!, 'TimedOut');
    history.task();
    history.signalOther('tally', 'b');
    const failures = { TimedOut: { rollouts: 1, message: 'written', example: 'b/5-1' } };
    const all = { done: 4, running: 0, valid: 3, turns: 9, tokens: 27, reward_sum: 6, failures };
    history.gives({ first: 4, tally: all, ended: [5] });
    await ends(history, { tally: all });
  });

  test('that is stopped closes its own rows as stopped', async () => {
    const { history, children } = running();
    history.signal('stop');
    history.task();
    for (const name of NAMES) history.signalChild('stop', `b/${name}`);
    for (const child of children)
      history.childCompleted(child, { ...VALID, stop_reason: 'stopped' });
    history.task();
    history.signalOther('tally', 'b');
    history.signalOther('tally', 'b');
    await ends(history, { stopped: true });
  });

  for (const [what, change] of Object.entries({
    'more rollouts than a history holds': { last: 100_000 },
    'rows that are no numbers': { first: '4' },
    'limits of no known shape': { limits: { max_turns: 3 } },
  })) {
    test(`that is given ${what} fails and starts nothing`, async () => {
      const workflow = { type: 'rolloutSlice', workflowId: 'b/rows-4-5' };
      const history = writeHistory(workflow, { ...INPUT, ...change });
      history.task();
      history.add('WORKFLOW_EXECUTION_FAILED', {});
      await history.replay();
    });
  }
});
