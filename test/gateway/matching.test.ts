/** Which call a request is. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Asking, Candidate, Match } from '../../src/gateway/match/matching.js';
import { matchCall } from '../../src/gateway/match/matching.js';

const candidate = (given: Partial<Candidate>): Candidate => ({
  call: 0,
  key: 'a',
  is_known: true,
  is_delivered: false,
  is_handed: false,
  is_continued: false,
  is_complete: false,
  connections: 0,
  closed_at: [],
  ...given,
});

const of = (
  calls: Partial<Candidate>[],
  {
    named = {},
    replays = true,
    ...asking
  }: Partial<Omit<Asking, 'key'>> & {
    named?: Record<string, { key: string; call: number }>;
    replays?: boolean;
  } = {},
): Match =>
  matchCall(
    { key: 'a', idempotency_key: null, is_retry: false, has_waited: false, ...asking },
    { calls: calls.map(candidate), named: new Map(Object.entries(named)), replays },
  );

describe('a request', () => {
  const cases: Record<string, [calls: Partial<Candidate>[], expected: Match]> = {
    'that nobody asked': [[], 'new'],
    'that was asked with other words': [[{ key: 'b' }], 'new'],
    'whose answer was cut off': [[{}], { attach: 0 }],
    'whose answers were cut off: the oldest': [[{ call: 1 }, { call: 2 }], { attach: 1 }],
    'that somebody still waits for: best of n': [[{ connections: 1 }], 'new'],
    'that one waits for, while another was cut off': [
      [{ connections: 1 }, { call: 1 }],
      { attach: 1 },
    ],
    'whose answer has arrived: a loop': [[{ is_delivered: true }], 'new'],
    'whose answer was given up twice': [[{ closed_at: [9, 5] }], { attach: 0 }],
    'whose answer was given up at the same place three times': [[{ closed_at: [9, 9, 9] }], 'new'],
    'whose answer was given up earlier each time': [[{ closed_at: [20, 9, 8, 3] }], 'new'],
    'whose answer was followed further': [[{ closed_at: [9, 9, 12] }], { attach: 0 }],
  };
  for (const [what, [calls, expected]] of Object.entries(cases))
    test(what, () => {
      assert.deepEqual(of(calls), expected);
    });

  test('with an idempotency key is the call of that key, delivered or not', () => {
    const named = { k: { key: 'a', call: 3 }, other: { key: 'b', call: 4 } };
    assert.deepEqual(of([{ call: 3, is_delivered: true }], { idempotency_key: 'k', named }), {
      attach: 3,
    });
    assert.equal(of([], { idempotency_key: 'other', named }), 'mismatch');
    assert.equal(of([], { idempotency_key: 'unknown', named }), 'new');
  });
});

describe('a life that replays gives, of what earlier lives asked,', () => {
  const earlier = (call: number, given: Partial<Candidate> = {}): Partial<Candidate> => ({
    call,
    is_known: false,
    ...given,
  });
  const [whole, delivered, continued] = [
    { is_complete: true },
    { is_complete: true, is_delivered: true },
    { is_complete: true, is_delivered: true, is_continued: true },
  ];
  const cases: Record<string, [calls: Partial<Candidate>[], expected: Match]> = {
    'one that is unfinished': [[earlier(0)], { attach: 0 }],
    'a whole one before an unfinished one': [[earlier(0), earlier(1, whole)], { attach: 1 }],
    'a delivered one before a whole one': [
      [earlier(0, whole), earlier(1, delivered)],
      { attach: 1 },
    ],
    'a continued one before a delivered one': [
      [earlier(0, delivered), earlier(1, continued)],
      { attach: 1 },
    ],
    'a continued one, though its delivery is not known': [
      [earlier(0, delivered), earlier(1, { ...whole, is_continued: true })],
      { attach: 1 },
    ],
    'of equal ones the oldest': [
      [earlier(0, whole), earlier(1, continued), earlier(2, continued)],
      { attach: 1 },
    ],
    'none that it knows': [[{ ...continued, connections: 1 }, earlier(1)], { attach: 1 }],
    'none with other words': [[earlier(0, { ...continued, key: 'b' })], 'new'],
    'nothing before its own that did not arrive': [
      [earlier(0, continued), { call: 1 }],
      { attach: 1 },
    ],
    'something even where its own are given up': [
      [earlier(0), { call: 1, closed_at: [4, 4, 4] }],
      { attach: 0 },
    ],
  };
  for (const [what, [calls, expected]] of Object.entries(cases))
    test(what, () => {
      assert.deepEqual(of(calls), expected);
    });

  test('each once, in this order', () => {
    const calls = [
      earlier(0),
      earlier(1, whole),
      earlier(2, continued),
      earlier(3, delivered),
      earlier(4, continued),
    ];
    const order = [2, 4, 3, 1, 0];
    for (const call of order) {
      assert.deepEqual(of(calls), { attach: call });
      Object.assign(calls[call]!, { is_known: true, connections: 1 });
    }
    assert.equal(of(calls), 'new');
  });

  test('nothing where it begins anew', () => {
    assert.equal(of([earlier(0, continued)], { replays: false }), 'new');
  });
});

describe('a request whose client says that it has asked before', () => {
  const open = { connections: 1 };
  const arrived = { is_complete: true, is_delivered: true };
  const waited = { is_retry: true, has_waited: true };
  const cases: Record<
    string,
    [calls: Partial<Candidate>[], asking: Partial<Asking>, expected: Match]
  > = {
    'waits for the close of an open connection': [[open], { is_retry: true }, 'wait'],
    'does not wait where another was cut off': [
      [open, { call: 1 }],
      { is_retry: true },
      { attach: 1 },
    ],
    'does not wait for what an earlier life asked': [
      [{ ...open, is_known: false }],
      { is_retry: true },
      { attach: 0 },
    ],
    'is the call that was cut off meanwhile': [[{}], waited, { attach: 0 }],
    'is another call where none closes': [[open], waited, 'new'],
    'is an answer that an open connection was handed, where none closes': [
      [{ ...open, is_handed: true, is_complete: true }],
      waited,
      { attach: 0 },
    ],
    'is the newest answer that arrived, where none closes': [
      [
        { ...arrived, call: 0 },
        { ...arrived, call: 1 },
        { ...open, call: 2 },
      ],
      waited,
      { attach: 1 },
    ],
    'is an answer that arrived, where none is open': [[arrived], { is_retry: true }, { attach: 0 }],
    'is no answer that was gone on from': [
      [{ ...arrived, is_continued: true }],
      { is_retry: true },
      'new',
    ],
    'is another call where nobody asked before': [[], { is_retry: true }, 'new'],
    'is no call with other words': [[{ ...open, key: 'b' }], { is_retry: true }, 'new'],
  };
  for (const [what, [calls, asking, expected]] of Object.entries(cases))
    test(what, () => {
      assert.deepEqual(of(calls, asking), expected);
    });
});
