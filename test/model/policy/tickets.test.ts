/** Who may put weights into engines, under which number, and which engines then hold together. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Begin } from '../../../src/model/policy/orders.js';
import type { PolicyRecord } from '../../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../../src/model/policy/record.js';
import {
  acceptedLabels,
  needsInit,
  placed,
  refusalOfBegin,
  versionOf,
  wholeGroups,
} from '../../../src/model/policy/tickets.js';
import { AGREED_IDS, disagreements } from '../../../src/model/policy/agreement.js';

const HOLDER = { name: 'grpo', incarnation: 'one' };
const A = 'http://a/v1';
const beginOf = (given: object = {}) => Begin.parse({ holder: HOLDER, ...given });

/** Version 18 was tried last; `served`: an engine has it. */
const tried = ({ served, by = HOLDER }: { served: boolean; by?: typeof HOLDER }): PolicyRecord => {
  const weights = {
    '18': {
      weights: { kind: 'transfer' as const },
      cache: 'reset' as const,
      probe: null,
      pause_limit: '10m',
      files: null,
      lora: null,
      holder: null,
      take_over: false,
    },
  };
  const record = { ...firstRecord([A]), version: 17, target: 18, weights };
  if (!served) return record;
  const last = { nonce: 'n', version: 18, fleet: 'f', holder: by, why: '', is_whole: true };
  const current = withReplica(record, { replica: A, state: 'current', version: 18 });
  return { ...current, version: 18, transfers: { open: null, past: [last] } };
};

describe('the number of a transfer', () => {
  const fresh = tried({ served: false });
  const served = tried({ served: true });
  const foreign = tried({ served: true, by: { name: 'grpo', incarnation: 'two' } });
  const rows: [string, PolicyRecord | null, object, number, RegExp | null][] = [
    ['is the first one without a record', null, {}, 1, null],
    ['follows the last one tried', fresh, {}, 19, null],
    ['may be any higher one', served, { version: 40 }, 40, null],
    ['may be tried again where no engine has served it', fresh, { version: 18 }, 18, null],
    ['is spent once an engine has', served, { version: 18 }, 18, /those that lack it with `only`/],
    ['may get more engines by the same process', served, { version: 18, only: [A] }, 18, null],
    [
      'gets none by another process',
      foreign,
      { version: 18, only: [A] },
      18,
      /have served, got 18/,
    ],
    ['never falls', fresh, { version: 17 }, 17, /more than 18, the last one tried, got 17/],
  ];
  for (const [name, record, begin, version, refusal] of rows)
    test(name, () => {
      const got = refusalOfBegin(record, beginOf(begin));
      if (refusal === null) assert.equal(got, null);
      else assert.match(got ?? '', refusal);
      assert.equal(versionOf(record, beginOf(begin)), version);
    });
});

test('engines have their places in as many collectives as the trainer says', () => {
  const engines = [2, 1, 4].map((world_size) => ({ world_size }));
  const places = (groups: number | null) =>
    placed(engines, groups).map((one) => [one.group, one.rank_offset]);
  assert.deepEqual(places(null), [
    [0, 1],
    [1, 1],
    [2, 1],
  ]);
  assert.deepEqual(places(1), [
    [0, 1],
    [0, 3],
    [0, 4],
  ]);
  assert.deepEqual(places(2), [
    [0, 1],
    [0, 3],
    [1, 1],
  ]);
});

test('a group holds only where all of its engines do', () => {
  const engines = [
    { url: 'a', group: 0 },
    { url: 'b', group: 0 },
    { url: 'c', group: 1 },
  ];
  assert.deepEqual(
    wholeGroups(engines, (url) => url !== 'b'),
    [1],
  );
});

test('a collective is used again only for the same fleet after a whole transfer', () => {
  const last = { nonce: 'n', version: 1, fleet: 'f', holder: HOLDER, why: '', is_whole: true };
  const init = (past: (typeof last)[], fleet: string) => needsInit({ open: null, past }, fleet);
  assert.equal(init([last], 'f'), false);
  assert.equal(init([last], 'g'), true);
  assert.equal(init([last, { ...last, is_whole: false }], 'f'), true);
  assert.equal(init([], 'f'), true);
});

test('the final label is accepted only of an attempt that has begun to set it', () => {
  const ticket = { version: 18, own_label: null, finishing: false };
  const by = (given: object, labels = {}) =>
    acceptedLabels({ ...ticket, ...given }, { url: A, labels, transit: '18?n' });
  assert.deepEqual(by({}), ['18?n']);
  assert.deepEqual(by({ own_label: '5' }), ['18?n', '5']);
  assert.deepEqual(by({ own_label: '5' }, { [A]: '6' }), ['18?n', '6']);
  assert.deepEqual(by({ finishing: true }), ['18?n', '18']);
});

describe('engines agree about their weights', () => {
  const RULE = { tolerance: 0.05, same: false };
  const told = (before: number | null, after: number) => ({
    before: before === null ? null : [before, -1],
    after: [after, -1],
  });
  const wrong = (of: Record<string, ReturnType<typeof told>>, rule: object = {}): string[] =>
    Object.keys(disagreements(of, { ...RULE, ...rule }));

  test('where all say the same, and other than before', () => {
    assert.deepEqual(wrong({ a: told(-2, -3), b: told(-2, -3.04) }), []);
  });
  test('unless nothing has changed', () => {
    assert.deepEqual(wrong({ a: told(-2, -2) }), ['a']);
    assert.deepEqual(wrong({ a: told(-2, -2) }, { same: true }), []);
  });
  test('and a minority does not', () => {
    assert.deepEqual(wrong({ a: told(-2, -3), b: told(-2, -3), c: told(-2, -4) }), ['c']);
  });
  test('and two that differ prove nothing', () => {
    assert.deepEqual(wrong({ a: told(-2, -3), b: told(-2, -4) }), ['a', 'b']);
  });
  test('where nobody could be asked before', () => {
    assert.deepEqual(wrong({ a: told(null, -3), b: told(null, -3) }), []);
  });
  test('about 64 ids', () => {
    assert.equal(AGREED_IDS.length, 64);
    assert.ok(AGREED_IDS.every((id) => id >= 3 && id < 100));
  });
});
