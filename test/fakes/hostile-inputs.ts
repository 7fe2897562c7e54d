/**
 * What any client of the Temporal server may send: test/workflows/signal-checks.test.ts plays all of it where it is
 * refused, and test/e2e/bad-input.test.ts some of each kind against a whole stack.
 */
import type { Payload } from '@temporalio/client';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export const payload = (encoding: string, data: string): Payload => ({
  metadata: { encoding: bytes(encoding) },
  data: bytes(data),
});

export interface Unreadable {
  what: string;
  sent: Payload;
  /** What its refusal says. */
  says: RegExp;
}

/** One of each kind that no workflow can read. */
export const UNREADABLE: readonly Unreadable[] = [
  {
    what: 'NaN',
    sent: payload('json/plain', '{"samples":[{"answer":NaN}]}'),
    says: /expected JSON, got something else: .*NaN/,
  },
  { what: 'cut JSON', sent: payload('json/plain', '{"samples": ['), says: /expected JSON, got / },
  {
    what: 'bytes that are no UTF-8',
    sent: { metadata: { encoding: bytes('json/plain') }, data: Uint8Array.of(0x22, 0xff, 0x22) },
    says: /expected JSON, got something else: .*utf-8/,
  },
  { what: 'no text', sent: payload('json/plain', ''), says: /expected JSON, got / },
  { what: 'no data', sent: { metadata: { encoding: bytes('json/plain') } }, says: /expected JSON/ },
  { what: 'nothing at all', sent: {}, says: /a payload without metadata\.encoding/ },
  {
    what: "another client's codec",
    sent: payload('binary/encrypted', '\u0001\u0002'),
    says: /expected JSON, got a payload of encoding "binary\/encrypted"/,
  },
  { what: 'protobuf', sent: payload('json/protobuf', '{}'), says: /"json\/protobuf"/ },
  {
    what: 'no encoding',
    sent: { data: bytes('{}') },
    says: /a payload without metadata\.encoding/,
  },
  {
    what: 'a depth that nobody can write again',
    sent: payload('json/plain', `{"samples":${'['.repeat(100_000)}${']'.repeat(100_000)}}`),
    says: /expected JSON, got something else: expected at most 512 levels, got more/,
  },
];

/** Some of them for a whole stack: decoding fails in three ways. */
export const FEW_UNREADABLE = UNREADABLE.filter(({ what }) =>
  ['NaN', "another client's codec", 'a depth that nobody can write again'].includes(what),
);

/** JSON of every shape that no signal has. */
export const RUBBISH: readonly unknown[] = [
  undefined,
  -1,
  1.5,
  1e300,
  'x',
  '4',
  [],
  [[]],
  {},
  { first: 0 },
  { plan: 1 },
  { max_rollout_turns: 'x' },
  JSON.parse('{"__proto__": {"a": 1}}'),
];

const SLICE = {
  batch_id: 'b',
  first: 0,
  last: 0,
  num_repeats: 1,
  max_in_flight: 1,
  tallies: 0,
  k: null,
};
const GROUP = { stream_id: 's', group: 0, num_repeats: 1, max_replacements: 0, filter: null };
const PLACE = { batch_id: 'b', row: 0, repeat: 0 };

/** Inputs of workflows that only workflows start. */
export const BY_HAND: readonly (readonly [what: string, type: string, args: unknown[]])[] = [
  ['a slice of nothing', 'rolloutSlice', [null]],
  ['a slice without an input', 'rolloutSlice', []],
  ['a slice of a billion rows', 'rolloutSlice', [{ ...SLICE, last: 1e9, max_in_flight: 1e9 }]],
  ['a slice of a billion repeats', 'rolloutSlice', [{ ...SLICE, num_repeats: 1e9 }]],
  ['a slice without an end', 'rolloutSlice', [{ ...SLICE, last: 'x' }]],
  ['a slice of an id that names a path', 'rolloutSlice', [{ ...SLICE, batch_id: '../escaped' }]],
  ['a slice of an id that is no text', 'rolloutSlice', [{ ...SLICE, batch_id: '\ud800' }]],
  ['a group of a stream whose id is no text', 'rolloutGroup', [{ ...GROUP, stream_id: '\ud800' }]],
  ['a rollout that claims to have come far', 'rollout', [PLACE, { plan: PLACE, limits: {} }]],
  ['a rollout that has come nowhere', 'rollout', [PLACE, { plan: null }]],
];
