/** Groups of a batch that are handed out while others run. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Member } from '../../src/workflows/children/refill.js';
import { queueMembers } from '../../src/workflows/children/refill.js';
import type { WrittenHistory } from '../harness/written-history.js';
import { writeHistory } from '../harness/written-history.js';

describe('a group has ended', () => {
  const batches = fc.record({
    samples: fc.integer({ min: 1, max: 5 }),
    num_repeats: fc.integer({ min: 1, max: 4 }),
    max_replacements: fc.option(fc.integer({ min: 0, max: 6 })),
    max_in_flight: fc.integer({ min: 1, max: 6 }),
    /** Which of those that run ends, and how. */
    steps: fc.array(fc.record({ which: fc.nat(), fails: fc.boolean() }), {
      minLength: 40,
      maxLength: 60,
    }),
    /** Rows that need no more members from this step on. */
    over: fc.array(fc.record({ row: fc.nat(4), at: fc.nat(20) })),
  });

  test('once, when none of its members runs and none will, with any failures in any order', () => {
    fc.assert(
      fc.property(
        batches,
        ({ samples, num_repeats, max_replacements, max_in_flight, steps, over }) => {
          const rows = { first: 0, last: samples - 1 };
          const running: Member[] = [];
          const ended: number[] = [];
          const line = queueMembers({
            ...{ rows, num_repeats, max_replacements, k: 1 },
            onEnded: (row) => ended.push(row),
          });
          const startAll = (): void => {
            while (running.length < max_in_flight) {
              const member = line.next();
              if (member === null) return;
              assert.ok(
                !ended.includes(member.row),
                `a member of ${member.row} begins behind its end`,
              );
              running.push(member);
            }
          };
          startAll();
          for (const [i, { which, fails }] of steps.entries()) {
            for (const { row } of over.filter(({ at }) => at === i)) line.valid(row);
            const [member] = running.splice(which % Math.max(1, running.length), 1);
            if (member === undefined) break;
            if (fails) line.failed(member);
            line.ended(member.row);
            assert.ok(!ended.some((row) => running.some((one) => one.row === row)));
            startAll();
          }
          assert.equal(new Set(ended).size, ended.length);
          // Without replacements all of them end, except those that began with none.
          if (max_replacements === null && running.length === 0)
            for (let row = 0; row < samples; row++)
              assert.ok(ended.includes(row) || line.hasEnough(row), `${row} has not ended`);
        },
      ),
    );
  });
});

const PLAN = {
  batch_id: 'b',
  samples: 2,
  num_repeats: 1,
  slices: [{ first: 0, last: 1 }],
  tallies: 3,
  max_in_flight: 5,
  limits: {},
  min_k: null,
  refill: null,
  continued: false,
};
const VALID = { stop_reason: 'terminated', total_reward: 1, turn_count: 1, total_tokens: 9 };
const RESULT = { batch_id: 'b', counts: { requested: 2, completed: 2 } };
const FOLD = { batch_id: 'b', from: 0, rows: [1], stopped: false };

function running(
  plan: object = PLAN,
  ids = ['b/0-0', 'b/1-0'],
): { history: WrittenHistory; children: string[] } {
  const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, {});
  history.task();
  history.activity('planBatch', plan);
  history.task();
  const children = ids.map((id) => {
    const child = history.startChild('rollout', id);
    history.childStarted(child, { type: 'rollout', workflowId: id });
    return child;
  });
  history.task();
  return { history, children };
}

async function closes(history: WrittenHistory): Promise<void> {
  history.activity('closeBatch', RESULT);
  history.task();
  history.add('WORKFLOW_EXECUTION_COMPLETED', {});
  await history.replay();
}

describe('update groups of a batch', () => {
  test('folds what has ended, and repeats its answer', async () => {
    const { history, children } = running();
    history.childCompleted(children[1]!, VALID);
    history.task();
    history.update('groups', { after: 0, wait: '1m' });
    history.completeActivity(history.scheduleActivity('foldGroups'), {
      file: '/f',
      sequences: '/s',
      completed: 1,
    });
    history.gives(FOLD);
    history.task();
    history.updateEnds();
    history.gives({ from: 0, to: 1, file: '/f', sequences: '/s', completed: 1, done: false });
    history.task();
    history.update('groups', { after: 0, wait: '1m' });
    history.updateEnds();
    history.gives({ from: 0, to: 1, file: '/f', sequences: '/s', completed: 1, done: false });
    history.childCompleted(children[0]!, VALID);
    history.task();
    await closes(history);
  });

  test('waits where there is none, and says at the closing that none comes', async () => {
    const { history, children } = running(
      { ...PLAN, samples: 1, num_repeats: 2, max_in_flight: 1 },
      ['b/0-0'],
    );
    history.update('groups', { wait: '1m' });
    const timer = history.add('TIMER_STARTED', { timerId: '1', startToFireTimeout: '60s' });
    // The other member is kept from being started: its group does not end before the closing.
    history.signal('stop');
    history.task();
    history.signalChild('stop', 'b/0-0');
    history.childCompleted(children[0]!, { ...VALID, stop_reason: 'stopped' });
    history.task();
    const closing = history.scheduleActivity('closeBatch');
    history.add('TIMER_CANCELED', { timerId: '1', startedEventId: timer });
    history.updateEnds();
    history.gives({ from: 0, to: 0, file: null, done: true });
    history.completeActivity(closing, RESULT);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });

  test('gives up a fold that the closing overtakes', async () => {
    const { history, children } = running();
    history.childCompleted(children[1]!, VALID);
    history.task();
    history.update('groups', { after: 0 });
    const fold = history.scheduleActivity('foldGroups');
    history.childCompleted(children[0]!, VALID);
    history.task();
    const closing = history.scheduleActivity('closeBatch');
    history.add('ACTIVITY_TASK_CANCEL_REQUESTED', { scheduledEventId: fold });
    history.updateEnds();
    history.gives({ from: 0, to: 0, file: null, done: true });
    history.completeActivity(closing, RESULT);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });
});
