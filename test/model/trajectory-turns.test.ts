import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Semantics } from '../../src/model/semantics.js';
import type { JournalLine } from '../../src/model/journal.js';
import { SETTINGS, author, foldOf, wholeTurn } from '../fakes/journal-lines.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const a = author('a');
const b = author('b');
const SEMANTICS: readonly Semantics[] = Semantics.options;

const startedWith = (semantics: Semantics, column: { stop_strings?: string[] | null } = {}) => [
  a.claim(),
  a.start({
    settings: { ...SETTINGS, semantics },
    extra_env_info: { state: 'first' },
    ...column,
  }),
];

describe('observations', () => {
  test('the first of a turn wins', () => {
    const played = foldOf([
      ...startedWith('standard'),
      ...wholeTurn(a, { reward: 1 }),
      b.claim(),
      b.observation({ reward: 5 }),
    ]);
    const { total_reward } = played;
    const turns = turnsOf(played);
    assert.equal(turns.length, 1);
    assert.equal(total_reward, 1);
  });

  test('one without a whole generation is ignored', () => {
    const lines = [...startedWith('standard'), a.chunk(), a.observation()];
    assert.deepEqual(turnsOf(foldOf(lines)), []);
  });

  test('they count tokens: the prompt’s are in the context and in no total', () => {
    const played = foldOf([
      ...startedWith('standard'),
      ...wholeTurn(a, { ids: [1, 2, 3], token_ids: [8, 9] }),
      ...wholeTurn(a, { turn: 1, ids: [4], token_ids: [] }),
    ]);
    const { assistant_tokens, env_tokens } = played;
    const context_ids = contextOf(played);
    assert.equal(assistant_tokens, 4);
    assert.equal(env_tokens, 2);
    assert.deepEqual(context_ids, [901, 902, 1, 2, 3, 8, 9, 4]);
  });
});

describe('the environment’s state', () => {
  const next = { metadata: { state: 'next' } };

  for (const semantics of SEMANTICS) {
    test(`under ${semantics} it is what the environment gave last; null keeps it`, () => {
      const lines = [...startedWith(semantics), ...wholeTurn(a, next)];
      assert.deepEqual(foldOf(lines).extra_env_info, { state: 'next' });
      const kept = [...lines, ...wholeTurn(a, { turn: 1, metadata: null })];
      assert.deepEqual(foldOf(kept).extra_env_info, { state: 'next' });
    });

    for (const flag of ['terminated', 'truncated'] as const) {
      test(`under ${semantics} a ${flag} turn leaves it and the stop strings as they were`, () => {
        const given = { ...next, next_stop_strings: ['x'], [flag]: true };
        const { extra_env_info, stop_strings } = foldOf([
          ...startedWith(semantics, { stop_strings: ['kept'] }),
          ...wholeTurn(a, given),
        ]);
        assert.deepEqual(extra_env_info, { state: 'first' });
        assert.deepEqual(stop_strings, ['kept']);
      });
    }
  }
});

describe('stop strings', () => {
  const after = (lines: JournalLine[], given: string[] | null) =>
    foldOf([...lines, ...wholeTurn(a, { next_stop_strings: given })]).stop_strings;

  for (const semantics of SEMANTICS) {
    test(`under ${semantics} the environment’s list replaces the sample’s`, () => {
      assert.deepEqual(after(startedWith(semantics, { stop_strings: ['a'] }), ['b']), ['b']);
      assert.deepEqual(after(startedWith(semantics, { stop_strings: null }), ['b']), ['b']);
    });
  }

  test('null from the environment keeps the list, but under nemo-rl-sync it overwrites', () => {
    const column = { stop_strings: ['a'] };
    assert.deepEqual(after(startedWith('standard', column), null), ['a']);
    assert.deepEqual(after(startedWith('nemo-rl-async', column), null), ['a']);
    assert.deepEqual(after(startedWith('nemo-rl', column), null), ['a']);
    assert.equal(after(startedWith('nemo-rl-sync', column), null), null);
  });

  test('a sample without the column gets the environment’s list, but under nemo-rl-sync never', () => {
    assert.deepEqual(after(startedWith('standard'), ['b']), ['b']);
    assert.deepEqual(after(startedWith('nemo-rl-async'), ['b']), ['b']);
    assert.deepEqual(after(startedWith('nemo-rl'), ['b']), ['b']);
    assert.equal(after(startedWith('nemo-rl-sync'), ['b']), undefined);
  });
});

describe('rewards', () => {
  const sumOf = (semantics: Semantics, rewards: number[]) =>
    foldOf([
      ...startedWith(semantics),
      ...rewards.flatMap((reward, turn) => wholeTurn(a, { turn, reward })),
    ]).total_reward;

  test('standard adds the numbers as they came', () => {
    assert.equal(sumOf('standard', [0.1, 0.2]), 0.1 + 0.2);
  });

  test('nemo-rl-async and nemo-rl round each step to float32 and add in double', () => {
    for (const semantics of ['nemo-rl-async', 'nemo-rl'] as const)
      assert.equal(sumOf(semantics, [0.1, 0.2]), Math.fround(0.1) + Math.fround(0.2));
  });

  test('nemo-rl-sync adds in float32 too', () => {
    const expected = Math.fround(Math.fround(0.1) + Math.fround(0.2));
    assert.equal(sumOf('nemo-rl-sync', [0.1, 0.2]), expected);
    assert.notEqual(expected, Math.fround(0.1) + Math.fround(0.2));
  });

  test('named components are added name by name, one that comes later from 0', () => {
    const { rewards } = foldOf([
      ...startedWith('standard'),
      ...wholeTurn(a, { rewards: { format: 1 } }),
      ...wholeTurn(a, { turn: 1, rewards: { format: 2, answer: 0.5 } }),
    ]);
    assert.deepEqual(rewards, { format: 3, answer: 0.5 });
  });

  test('named components are float32 where upstream’s are, and so is what a step is worth', () => {
    const after = (semantics: Semantics) => {
      const { rewards, total_reward } = foldOf([
        ...startedWith(semantics),
        ...wholeTurn(a, { reward: 0.1 + 0.2, rewards: { x: 0.1, y: 0.2 } }),
        ...wholeTurn(a, { turn: 1, reward: 0.7, rewards: { x: 0.7 } }),
      ]);
      return { ...rewards, total: total_reward };
    };
    const [x, y, later] = [0.1, 0.2, 0.7].map(Math.fround) as [number, number, number];
    assert.deepEqual(after('standard'), { x: 0.1 + 0.7, y: 0.2, total: 0.1 + 0.2 + 0.7 });
    assert.deepEqual(after('nemo-rl-async'), { x: x + later, y, total: x + y + later });
    const total = Math.fround(Math.fround(x + y) + later);
    assert.deepEqual(after('nemo-rl-sync'), { x: Math.fround(x + later), y, total });
  });

  test('a component may be named like what every object has', () => {
    const rewards = { constructor: 1, toString: 2, hasOwnProperty: 0.5 };
    const turns = [0, 1].flatMap((turn) => wholeTurn(a, { turn, reward: 3.5, rewards }));
    const fold = foldOf([...startedWith('standard'), ...turns]);
    assert.deepEqual(fold.rewards, { constructor: 2, toString: 4, hasOwnProperty: 1 });
    assert.equal(fold.total_reward, 7);
  });
});
