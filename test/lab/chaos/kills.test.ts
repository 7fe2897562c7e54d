import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Played } from '../../../lab/chaos/played.js';
import { judgedKills } from '../../../lab/chaos/kills/report.js';
import { summarized } from '../../../lab/chaos/report.js';

const PLAYED: Played = {
  name: 'stream',
  rows_expected: 96,
  rows: 96,
  rows_duplicated: 0,
  failures: 0,
  steps: 24,
  steps_changed: 0,
  labels: {
    ...{ tokens: 900, wrong: [], unlabelled: 3, labels: {}, sampled_twice: 70 },
    ...{ turns_generated_twice: 0, half_loaded: 0, rollouts: 96 },
  },
  problems: [],
};
const STRUCK = {
  kills: { worker: 10, simulator: 10, 'Temporal server': 10 },
  during: 30,
  longest_gap_s: 2.1,
};

const judged = (change: Partial<Played> = {}, more: Partial<typeof STRUCK> = {}) =>
  judgedKills(
    { ...PLAYED, ...change },
    { struck: { ...STRUCK, ...more }, duration_s: 140, stack_down: null },
  );

describe('a run under kills', () => {
  test('is not broken within its bounds', () => {
    assert.deepEqual(judged().broken, []);
  });

  for (const [what, change, says] of [
    ['a lost row', { rows: 95 }, 'rows: expected 96, got 95'],
    ['a row that is there twice', { rows_duplicated: 1 }, 'rows_duplicated: expected 0, got 1'],
    ['a failure', { failures: 2 }, 'failures: expected 0, got 2'],
    ['a step that has changed', { steps_changed: 1 }, 'steps_changed: expected 0, got 1'],
    ['anything else', { problems: ['a group twice'] }, 'a group twice'],
    [
      'a wrong version',
      { labels: { ...PLAYED.labels, wrong: ['x 3: 7, sampled with 6'] } },
      'versions_wrong: expected 0, got 1',
    ],
    [
      'a turn that was generated twice',
      { labels: { ...PLAYED.labels, turns_generated_twice: 1 } },
      'turns_generated_twice: expected 0, got 1',
    ],
  ] as const)
    test(`is broken by ${what}, as is the report`, () => {
      const report = judged(change as Partial<Played>);
      assert.equal(report.broken[0], says);
      const given = { seed: 1, form: 'long', store: 'file', duration_s: 1 } as const;
      assert.equal(
        summarized({ ...given, faults: [], kills: [report], day: [], not_played: [] }).ok,
        false,
      );
    });

  test('is broken where it had ended before the last kill', () => {
    assert.deepEqual(judged({}, { during: 29 }).broken, [
      'kills while it was played: expected 30, got 29',
    ]);
  });

  test('is broken where the stack is not up', () => {
    const { broken } = judgedKills(PLAYED, { struck: STRUCK, duration_s: 1, stack_down: 'gone' });
    assert.deepEqual(broken, ['the stack is not up: gone']);
  });
});
