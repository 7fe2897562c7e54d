/** Which call a request is. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Candidate, Handed, Match } from '../../src/gateway/matching.js';
import { isDelivered, matchCall } from '../../src/gateway/matching.js';

const candidate = (given: Partial<Candidate>): Candidate => ({
  call: 0,
  key: 'a',
  is_known: true,
  is_delivered: false,
  connections: 0,
  closed_at: [],
  ...given,
});

const of = (
  calls: Partial<Candidate>[],
  { idempotency_key = null, named = {} }: { idempotency_key?: string | null; named?: Record<string, { key: string; call: number }> } = {},
): Match =>
  matchCall(
    { key: 'a', idempotency_key },
    { calls: calls.map(candidate), named: new Map(Object.entries(named)) },
  ); // prettier-ignore

describe('a request', () => {
  const cases: Record<string, [calls: Partial<Candidate>[], expected: Match]> = {
    'that nobody asked': [[], 'new'],
    'that was asked with other words': [[{ key: 'b' }], 'new'],
    'whose answer was cut off': [[{}], { attach: 0 }],
    'whose answers were cut off: the oldest': [[{ call: 1 }, { call: 2 }], { attach: 1 }],
    'that somebody still waits for: best of n': [[{ connections: 1 }], 'new'],
    'that one waits for, while another was cut off': [[{ connections: 1 }, { call: 1 }], { attach: 1 }],
    'whose answer has arrived: a loop': [[{ is_delivered: true }], 'new'],
    'of an earlier life': [[{ is_known: false }], 'new'],
    'whose answer was given up twice': [[{ closed_at: [9, 5] }], { attach: 0 }],
    'whose answer was given up at the same place three times': [[{ closed_at: [9, 9, 9] }], 'new'],
    'whose answer was given up earlier each time': [[{ closed_at: [20, 9, 8, 3] }], 'new'],
    'whose answer was followed further': [[{ closed_at: [9, 9, 12] }], { attach: 0 }],
  }; // prettier-ignore
  for (const [what, [calls, expected]] of Object.entries(cases))
    test(what, () => {
      assert.deepEqual(of(calls), expected);
    });

  test('with an idempotency key is the call of that key, delivered or not', () => {
    const named = { k: { key: 'a', call: 3 }, other: { key: 'b', call: 4 } };
    assert.deepEqual(of([{ call: 3, is_delivered: true }], { idempotency_key: 'k', named }), { attach: 3 }); // prettier-ignore
    assert.equal(of([], { idempotency_key: 'other', named }), 'mismatch');
    assert.equal(of([], { idempotency_key: 'unknown', named }), 'new');
  });
});

describe('an answer that was handed over', () => {
  const cases: [given: Partial<Handed>, expected: boolean][] = [
    [{}, false],
    [{ open_s: 4.9 }, false],
    [{ open_s: 5 }, true],
    [{ connection: 'closed' }, true],
    [{ connection: 'reset', open_s: 9 }, false],
    [{ connection: 'reset', continued: true }, true],
    [{ asked_again: true }, true],
  ];
  for (const [given, expected] of cases)
    test(`${JSON.stringify(given)}: ${expected ? 'delivered' : 'not yet'}`, () => {
      const handed: Handed = {
        connection: 'open',
        asked_again: false,
        continued: false,
        open_s: 0,
      };
      assert.equal(isDelivered({ ...handed, ...given }), expected);
    });
});
