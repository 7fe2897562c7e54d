import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  limitsProblem,
  maxInFlightProblem,
  rolloutTimeoutMs,
  turnLimitsOf,
} from '../../../src/model/workflow-safe/limits.js';

describe('the input of set_limits', () => {
  const good = [
    { max_rollout_turns: 0 },
    { max_new_tokens: 1 },
    { max_seq_len: 1 },
    { rollout_timeout: '90s' },
    { max_rollout_turns: 3, max_new_tokens: 64, max_seq_len: 512, rollout_timeout: '1h' },
  ];
  for (const input of good) {
    test(`${JSON.stringify(input)} is taken`, () => {
      assert.equal(limitsProblem(input), null);
    });
  }

  const bad: [unknown, RegExp][] = [
    [undefined, /^expected an object with max_rollout_turns, .*, rollout_timeout, got nothing$/],
    [null, /^expected an object with .*, got null$/],
    [[3], /^expected an object with .*, got \[3\]$/],
    [{}, /^expected an object with .* \(at least one\), got \{\}$/],
    [{ max_turns: 3 }, /^max_turns: unknown field; expected an object with max_rollout_turns/],
    [{ toString: 3 }, /^toString: unknown field/],
    [{ max_rollout_turns: -1 }, /^max_rollout_turns: expected an integer of at least 0, got -1$/],
    [{ max_rollout_turns: 1.5 }, /^max_rollout_turns: .*, got 1\.5$/],
    [{ max_new_tokens: 0 }, /^max_new_tokens: expected an integer of at least 1, got 0$/],
    [{ max_seq_len: '512' }, /^max_seq_len: expected an integer of at least 1, got "512"$/],
    [{ max_seq_len: 512, max_new_tokens: null }, /^max_new_tokens: .*, got null$/],
    [
      { rollout_timeout: 90 },
      /^rollout_timeout: expected a duration such as "30s" or "1h", got 90$/,
    ],
    [{ rollout_timeout: '0s' }, /^rollout_timeout: expected a duration .*, got "0s"$/],
    [{ rollout_timeout: '20y' }, /^rollout_timeout: .* at most 10 years, got "20y"$/],
    [{ max_seq_len: 'x'.repeat(500) }, /^max_seq_len: .*got "x{79}…$/],
  ];
  for (const [input, message] of bad) {
    test(`${JSON.stringify({ input }).slice(0, 50)} is refused, and the message names what is wrong`, () => {
      assert.match(limitsProblem(input) ?? '', message);
    });
  }
});

describe('the input of set_max_in_flight', () => {
  test('is a positive integer under its name', () => {
    assert.equal(maxInFlightProblem({ max_in_flight: 1 }), null);
    assert.match(
      maxInFlightProblem({ max_in_flight: 0 }) ?? '',
      /^max_in_flight: .* at least 1, got 0$/,
    );
    assert.match(maxInFlightProblem({ in_flight: 4 }) ?? '', /^in_flight: unknown field/);
    assert.match(maxInFlightProblem(64) ?? '', /^expected an object with max_in_flight, got 64$/);
  });
});

test('a change is of the turns, of the deadline, or of both', () => {
  assert.deepEqual(turnLimitsOf({ max_seq_len: 9, rollout_timeout: '2s' }), { max_seq_len: 9 });
  assert.equal(turnLimitsOf({ rollout_timeout: '2s' }), null);
  assert.equal(rolloutTimeoutMs({ rollout_timeout: '2s' }), 2000);
  assert.equal(rolloutTimeoutMs({ max_seq_len: 9 }), null);
});
