import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Operated } from '../../../lab/chaos/day/operate.js';
import { OPERATIONS } from '../../../lab/chaos/day/operations.js';
import { judgedDay } from '../../../lab/chaos/day/report.js';
import type { Looked } from '../../../lab/chaos/day/subject.js';
import { patienceOf, watchWaits } from '../../../lab/chaos/day/watch-waits.js';
import type { Played } from '../../../lab/chaos/played.js';
import { summarized } from '../../../lab/chaos/report.js';
import { eventually } from '../../../lab/bed/waiting.js';

const NAMES = OPERATIONS.map(({ name }) => name);

describe('what stands still', () => {
  /** A second of the watched is a millisecond here. */
  async function silencesOf(
    states: readonly (Partial<Looked> & { bytes?: number; for_s: number })[],
  ): Promise<string[]> {
    let [now_ms, at] = [0, 0];
    const said: string[] = [];
    const left = states.map(({ for_s }) => for_s);
    const state = (): Partial<Looked> & { bytes?: number } => states[at] ?? { isOpen: false };
    const watch = watchWaits(
      {
        look: () => {
          now_ms += 1000;
          left[at]! -= 1;
          const looked = { isOpen: true, plays: true, age_s: 0, waits: null, ...state() };
          if (left[at] === 0) at += 1;
          return Promise.resolve(looked);
        },
        played: () => Promise.resolve(state().bytes ?? 0),
      },
      { onSilence: (text) => said.push(text), every_ms: 1, now: () => now_ms },
    );
    await eventually('all that it looks at', () => at === states.length);
    await watch.stop();
    return said;
  }

  test('for ten seconds without a word is reported, once', async () => {
    assert.deepEqual(await silencesOf([{ for_s: 25 }]), [
      'nothing has been played for 10 s, and nothing is named',
    ]);
  });

  test('is fine where it is named, where it plays, where it has ended, and shorter', async () => {
    const bytes = Array.from({ length: 20 }, (_, i) => ({ for_s: 1, bytes: i }));
    for (const states of [
      [{ for_s: 25, waits: 'x is paused' }],
      [{ for_s: 25, isOpen: false }],
      [{ for_s: 8 }, { for_s: 1, waits: 'x is paused' }, { for_s: 8 }],
      bytes,
    ])
      assert.deepEqual(await silencesOf(states), []);
  });

  test('is given as long as looks take at its age', () => {
    assert.equal(patienceOf({ age_s: 5 }), 10);
    assert.equal(patienceOf({ age_s: 300 }), 25);
  });
});

const PLAYED: Played = {
  name: 'batch',
  ...{ rows_expected: 64, rows: 64, rows_duplicated: 0, failures: 0, steps: 0, steps_changed: 0 },
  labels: {
    ...{ tokens: 900, wrong: [], unlabelled: 0, labels: {}, sampled_twice: 70 },
    ...{ turns_generated_twice: 0, half_loaded: 0, rollouts: 64 },
  },
  problems: [],
};
const OPERATED: Operated = { operations: NAMES, longest_unnamed_s: 6.2, problems: [] };

describe('a day', () => {
  const judged = (change: Partial<Played>, operated: Partial<Operated> = {}) =>
    judgedDay(
      { ...PLAYED, ...change },
      { operated: { ...OPERATED, ...operated }, duration_s: 200 },
    );

  test('is not broken within its bounds', () => {
    assert.deepEqual(judged({}).broken, []);
  });

  for (const [what, change, operated, says] of [
    ['a failure', { failures: 1 }, {}, 'failures: expected 0, got 1'],
    ['a wrong lag', { problems: ['step 3: lag'] }, {}, 'step 3: lag'],
    ['a wait that is not named', {}, { problems: ['pause: not named'] }, 'pause: not named'],
    [
      'an operation that found nothing to strike',
      {},
      { operations: NAMES.slice(1) },
      `${NAMES[0] ?? ''}: expected while it was played, it was not done`,
    ],
  ] as const)
    test(`is broken by ${what}, as is the report`, () => {
      const report = judged(change as Partial<Played>, operated as Partial<Operated>);
      assert.deepEqual(report.broken, [says]);
      const given = { seed: 1, form: 'long', store: 'file', duration_s: 1 } as const;
      assert.equal(
        summarized({ ...given, faults: [], kills: [], day: [report], not_played: [] }).ok,
        false,
      );
    });
});
