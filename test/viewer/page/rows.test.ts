import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { blanksOf } from '../../../viewer/page/blanks.js';
import { leavesOf } from '../../../viewer/page/leaves.js';
import {
  changed,
  filterOf,
  joined,
  keyOf,
  partsOf,
  sorted,
  withCondition,
} from '../../../viewer/page/rows.js';
import { madeRun } from '../made-documents.js';

const { entries, facts } = madeRun({ id: 'made', rows: 40, repeats: 4 });
const rows = joined(entries, { facts, steps: [] });
const parts = partsOf(rows);
const kept = (where: string): string[] => rows.filter(filterOf(where, parts)).map(keyOf);

describe('the filter of a run', () => {
  test('it names what --where names, and facts', () => {
    const [first] = facts;
    const replica = first?.replicas[0] ?? '';
    const wanted = rows
      .filter((row) => row.facts?.replicas[0] === replica && (row.reward ?? 1) < 0.5)
      .map(keyOf);
    assert.ok(wanted.length > 0 && wanted.length < rows.length);
    assert.deepEqual(kept(`reward<0.5 and replica=${replica}`), wanted);
  });

  test('a part of the reward is a number of its own', () => {
    assert.deepEqual(parts, ['correct', 'format']);
    const wanted = rows.filter((row) => row.facts?.rewards['correct'] === 1).map(keyOf);
    assert.deepEqual(kept('rewards.correct>0.5'), wanted);
  });

  test('of several values, one is enough for =, and != wants none of them', () => {
    const some = joined(entries.slice(0, 1), {
      facts: facts.slice(0, 1).map((one) => ({ ...one, tools: ['search', 'shell'] })),
      steps: [],
    });
    const holds = (where: string): boolean => some.every(filterOf(where, []));
    assert.ok(holds('tool=search') && holds('tool=shell') && holds('tool!=browse'));
    assert.ok(!holds('tool!=search'));
  });

  test('before facts are there, conditions on them hold for none', () => {
    const early = joined(entries, { facts: [], steps: [] });
    assert.equal(early.filter(filterOf('characters>=0', [])).length, 0);
  });

  test('a condition that is added filters what it was made of, whatever its value holds', () => {
    for (const value of ['plain', 'two words', 'a "quoted" one', "it's", 'a and b', ' ']) {
      const where = withCondition('turns>=0', { field: 'task', value });
      const one = { ...rows[0], task_name: value } as (typeof rows)[number];
      assert.ok(filterOf(where, [])(one), where);
      assert.equal(withCondition(where, { field: 'turns', sign: '>=', value: 0 }), where);
    }
  });

  test('a wrong condition says what is expected', () => {
    assert.throws(() => kept('rewrad<1'), /filter: expected one of .*replica/);
  });
});

describe('the list', () => {
  test('rows without the value come last in both directions, equal ones in the order of rollouts', () => {
    const up = sorted(rows, 'reward').map(({ reward }) => reward);
    const down = sorted(rows, '-reward').map(({ reward }) => reward);
    const missing = up.filter((reward) => reward === null).length;
    assert.ok(missing > 0);
    assert.ok(up.slice(-missing).every((reward) => reward === null));
    assert.ok(down.slice(-missing).every((reward) => reward === null));
    assert.equal(up[0], Math.min(...up.flatMap((reward) => reward ?? [])));
    const ones = sorted(rows, '-reward')
      .filter(({ reward }) => reward === 1)
      .map(keyOf);
    assert.deepEqual(ones, rows.filter(({ reward }) => reward === 1).map(keyOf));
  });

  test('an entry that changed takes its place, a new one comes last', () => {
    const [first, second] = entries;
    assert.ok(first && second);
    const news = [
      { ...first, turns: 99 },
      { ...second, row: 777 },
    ];
    const after = changed([first, second], news);
    assert.deepEqual(
      after.map(({ row, turns }) => [row, turns]),
      [
        [first.row, 99],
        [second.row, second.turns],
        [777, second.turns],
      ],
    );
  });

  test('rollouts of a stream know the step that took them', () => {
    const step = {
      step: 7,
      version: 1,
      completed: 4,
      failed: 0,
      mean_reward: 1,
      metrics: {},
      groups: [2],
    };
    const of = joined(entries, { facts, steps: [step] });
    assert.deepEqual(
      of.filter(filterOf('step=7', [])).map(({ row }) => row),
      [2, 2, 2, 2],
    );
  });
});

test('settings are named by their path, and what has nothing inside stays whole', () => {
  assert.deepEqual(
    leavesOf({ model: 'm', generation: { top_p: 1, stop: ['a'], more: { x: null } }, extra: {} }),
    [
      ['model', 'm'],
      ['generation.top_p', 1],
      ['generation.stop', ['a']],
      ['generation.more.x', null],
      ['extra', {}],
    ],
  );
});

test('white space at the end of a text is put into words', () => {
  assert.equal(blanksOf('Say: '), '1 space');
  assert.equal(blanksOf('a b  \n\n\t'), '2 spaces, 2 line breaks, 1 tab');
  assert.equal(blanksOf(' \u00a0'), '1 space, 1 other blank');
  assert.equal(blanksOf(' a'), null);
  assert.equal(blanksOf(''), null);
});
