import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Semantics } from '../../src/model/semantics.js';
import { Fault } from '../../src/model/faults.js';
import { limitObservation } from '../../src/model/turn/stop-rules.js';

const SEMANTICS: readonly Semantics[] = Semantics.options;
const MAX = 20;

function limit(
  given: { input: number; generated: number; observation: number },
  {
    semantics = 'standard',
    finish = 'stop',
  }: { semantics?: Semantics; finish?: 'stop' | 'length' } = {},
) {
  const ids = Array.from({ length: given.observation }, (_, i) => 700 + i);
  const { token_ids, truncated } = limitObservation(ids, {
    semantics,
    max_seq_len: MAX,
    input_tokens: given.input,
    generated_tokens: given.generated,
    finish_reason: finish,
  });
  assert.deepEqual(token_ids, ids.slice(0, token_ids.length), 'what is kept is the beginning');
  return { kept: token_ids.length, truncated };
}

describe('ids of an observation', () => {
  const cases = [
    {
      what: 'one token below the limit',
      input: 10,
      generated: 5,
      observation: 4,
      kept: 4,
      truncated: false,
    },
    {
      what: 'exactly at the limit',
      input: 10,
      generated: 5,
      observation: 5,
      kept: 5,
      truncated: true,
    },
    {
      what: 'one token above the limit',
      input: 10,
      generated: 5,
      observation: 6,
      kept: 5,
      truncated: true,
    },
    {
      what: 'far above the limit',
      input: 10,
      generated: 5,
      observation: 50,
      kept: 5,
      truncated: true,
    },
    {
      what: 'an empty one below the limit',
      input: 10,
      generated: 9,
      observation: 0,
      kept: 0,
      truncated: false,
    },
    {
      what: 'an empty one at the limit',
      input: 10,
      generated: 10,
      observation: 0,
      kept: 0,
      truncated: true,
    },
    {
      what: 'no room left at all',
      input: 10,
      generated: 10,
      observation: 3,
      kept: 0,
      truncated: true,
    },
  ];

  for (const { what, kept, truncated, ...given } of cases) {
    for (const semantics of SEMANTICS) {
      test(`under ${semantics}, ${what}: ${kept} kept, ${truncated ? '' : 'not '}truncated`, () => {
        assert.deepEqual(limit(given, { semantics }), { kept, truncated });
      });
    }
  }
});

describe('a log that is above the limit already', () => {
  const given = { input: 22, generated: 1, observation: 2 };

  test('leaves no ids and truncates', () => {
    for (const semantics of ['standard', 'nemo-rl-async', 'nemo-rl'] as const)
      assert.deepEqual(limit(given, { semantics }), { kept: 0, truncated: true });
  });

  test('under nemo-rl-sync fails with upstream’s text', () => {
    assert.throws(
      () => limit(given, { semantics: 'nemo-rl-sync' }),
      (error) =>
        error instanceof Fault &&
        !error.retryable &&
        error.message ===
          'tokens_left_for_obs=-3 should not be negative. This should not happen if the inference engine respects the max sequence length.',
    );
  });

  test('even with nothing to add', () => {
    const empty = { ...given, observation: 0 };
    assert.throws(() => limit(empty, { semantics: 'nemo-rl-sync' }), /tokens_left_for_obs=-3/);
    assert.deepEqual(limit(empty), { kept: 0, truncated: true });
  });
});

describe('a generation that ended by length', () => {
  const given = { input: 5, generated: 5, observation: 3 };

  test('truncates its turn under standard and nemo-rl, and nothing is cut', () => {
    for (const semantics of ['standard', 'nemo-rl'] as const) {
      const limited = limit(given, { semantics, finish: 'length' });
      assert.deepEqual(limited, { kept: 3, truncated: true }, semantics);
    }
  });

  test('ends nothing by itself in the loops of upstream’s older commit', () => {
    for (const semantics of ['nemo-rl-sync', 'nemo-rl-async'] as const) {
      const { truncated } = limit(given, { semantics, finish: 'length' });
      assert.equal(truncated, false, semantics);
    }
  });
});
