import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Entry } from '../../../src/client/show/entry.js';
import { listPage } from '../../../src/client/show/list-page.js';
import type { Selection } from '../../../src/client/show/selection.js';
import { parseWhere } from '../../../src/client/show/conditions.js';
import { select } from '../../../src/client/show/selection.js';
import { widthOf } from '../../../src/client/text-width.js';
import { parseShow } from '../../../src/cli/show/show-options.js';

const ALL: Selection = { where: () => true, failed: false, worst: false, sort: null, limit: null };

const entry = (row: number, given: Partial<Entry> = {}): Entry => ({
  row,
  repeat: 0,
  task_name: 'task',
  ended: 'terminated',
  reward: 0.5,
  reward_so_far: 0.5,
  turns: 2,
  tokens: 100,
  started_at: 1,
  wall_s: 12,
  attempts: 1,
  faults: 0,
  failure: null,
  reason: 'environment: wrong \u001b]0;owned\u0007',
  ...given,
});
const FAILURE = {
  type: 'EnvironmentFailed',
  message: 'bad \u001b]0;owned\u0007\u001b[31mred',
  turn: 1,
};
const failed = (row: number): Entry =>
  entry(row, {
    ended: 'failed',
    reward: null,
    reward_so_far: 9,
    failure: FAILURE,
    reason: `${FAILURE.type}: ${FAILURE.message}`,
  });
const rows = (entries: readonly Entry[]): number[] => entries.map(({ row }) => row);

describe('a list of rollouts', () => {
  const some = [entry(3, { reward: 1 }), failed(2), entry(1, { reward: 0 }), entry(0)];

  test('is in input order where nothing else is asked for', () => {
    assert.deepEqual(rows(select(some, ALL)), [0, 1, 2, 3]);
  });

  test('is sorted by rewards, rollouts without one last', () => {
    const largest = { by: 'reward', smallest_first: false } as const;
    assert.deepEqual(rows(select(some, { ...ALL, sort: largest })), [3, 0, 1, 2]);
    const smallest = { by: 'reward', smallest_first: true } as const;
    assert.deepEqual(rows(select(some, { ...ALL, sort: smallest, limit: 2 })), [1, 0]);
  });

  test('shows only failed ones, or those that meet a condition', () => {
    assert.deepEqual(rows(select(some, { ...ALL, failed: true })), [2]);
    const where = parseWhere('reward<0.6 and turns>=2');
    assert.deepEqual(rows(select(some, { ...ALL, where })), [0, 1]);
    assert.deepEqual(
      rows(select(some, { ...ALL, where: parseWhere('failure=EnvironmentFailed') })),
      [2],
    );
    assert.deepEqual(rows(select(some, { ...ALL, where: parseWhere('ended!=failed') })), [0, 1, 3]);
    for (const quoted of ["ended='failed'", 'ended = "failed"'])
      assert.deepEqual(rows(select(some, { ...ALL, where: parseWhere(quoted) })), [2], quoted);
  });

  test('takes a condition apart only outside its quotes', () => {
    const named = [entry(0, { task_name: 'search and rescue' }), entry(1, { task_name: "it's" })];
    for (const where of [
      "task='search and rescue' and reward<1",
      'reward<1&&task = "search and rescue"',
    ])
      assert.deepEqual(rows(select(named, { ...ALL, where: parseWhere(where) })), [0], where);
    const where = parseWhere("task=it's and reward<1");
    assert.deepEqual(rows(select(named, { ...ALL, where })), [1]);
    assert.throws(() => parseWhere('reward<1 && '), /--where: expected FIELD OPERATOR VALUE/);
  });

  test('is sorted by tokens under the name of their column, too', () => {
    for (const name of ['tokens', 'length'])
      assert.equal(parseShow(['b', '--sort', name]).selection.sort?.by, name);
    assert.throws(() => parseShow(['b', '--sort', 'size']), /--sort: expected one of reward, /);
  });

  test('of the worst has the failed ones behind those with a reward, if there is room', () => {
    const worst = (n: string) => parseShow(['b', '--worst', n]).selection;
    const none = some.map((entry) => ({ ...entry, reward: null }));
    assert.deepEqual(rows(select(none, worst('2'))), [2]);
    const rewarded = some.filter(({ reward }) => reward !== null).length;
    assert.ok(!rows(select(some, worst(String(rewarded)))).includes(2));
    assert.equal(rows(select(some, worst('20'))).at(-1), 2);
  });

  test('of the worst counts the failed ones below it, and takes no second order', () => {
    const { selection } = parseShow(['b', '--worst', '2']);
    const shown = select(some, selection);
    const list = { batch_id: 'b', entries: some, shown, requested: 4, hides_failed: true };
    const style = { columns: 120, colour: false };
    assert.deepEqual(rows(shown), [1, 0]);
    assert.equal(listPage(list, style).at(-1), '1 failed: --failed shows it');
    for (const other of [['--sort', 'wall'], ['--reverse'], ['--limit', '3'], ['--failed']])
      assert.throws(
        () => parseShow(['b', '--worst', '2', ...other]),
        new RegExp(`--worst N: expected it without ${other[0]}`),
      );
  });

  test('refuses a condition that is none, and says what it expected', () => {
    assert.throws(
      () => parseWhere('reward'),
      /expected FIELD OPERATOR VALUE, joined by and, such as reward<0.5 and turns>=3, got "reward"/,
    );
    assert.throws(() => parseWhere('rewrad<1'), /expected one of reward, length,.*got "rewrad<1"/);
    for (const unjoined of ['reward<1 turns>=2', 'task=a turns >= 2'])
      assert.throws(() => parseWhere(unjoined), /joined by and, .* got "/);
    assert.throws(() => parseWhere('turns<many'), /expected turns with a number/);
    assert.throws(() => parseWhere('task<a'), /expected task= or task!=/);
  });

  test('says why beside the numbers where there is room, else below them', () => {
    const list = { batch_id: 'b', entries: some, shown: some.slice(0, 1), requested: 6 };
    const at = (columns: number): string[] => listPage(list, { columns, colour: false }).slice(4);
    assert.match(at(159).join('|'), /^3-0 .* terminated {2}environment: wrong $/);
    assert.match(at(79).join('|'), /^3-0 .* terminated\| {4}environment: wrong $/);
  });

  test('counts wide characters twice where it cuts a reason', () => {
    const shown = [entry(0, { reason: '问题'.repeat(100) })];
    const list = { batch_id: 'b', entries: some, shown, requested: 6 };
    const [, why = ''] = listPage(list, { columns: 79, colour: false }).slice(4);
    assert.ok(widthOf(why) > 70 && widthOf(why) <= 79, why);
  });

  for (const columns of [79, 159]) {
    test(`fits into ${columns} columns, without a command for the terminal`, () => {
      const list = { batch_id: 'b', entries: some, shown: select(some, ALL), requested: 6 };
      const lines = listPage(list, { columns, colour: false });
      assert.equal(lines[0], 'b  6 rollouts: 3 valid, 1 failed, 2 not started');
      assert.equal(lines[1], 'mean reward 0.500');
      assert.ok(lines.every((line) => line.length <= columns));
      assert.ok(lines.some((line) => line.includes('EnvironmentFailed: bad red')));
      assert.doesNotMatch(lines.join(''), /[\u001b\u0007]|owned/);
    });
  }
});
