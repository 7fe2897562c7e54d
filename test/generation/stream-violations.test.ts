import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  assemble,
  finishStream,
  startStream,
  type SentRequest,
} from '../../src/generation/wire/stream-assembler.js';
import { Fault, type FaultType } from '../../src/model/faults.js';

const SENT: SentRequest = {
  site: { replica: 'http://engine/v1', call: 'completion b/0-0.0.w' },
  prompt_ids: [7, 8, 9],
  max_tokens: 4,
  logprobs: true,
  top_logprobs: 0,
};

const choice = (fields: object = {}) => ({
  index: 0,
  text: 'ab',
  token_ids: [1, 2],
  logprobs: { token_logprobs: [-0.5, -1] },
  prompt_token_ids: null,
  finish_reason: null,
  stop_reason: null,
  ...fields,
});
const chunk = (fields: object = {}) => ({ id: 'x', choices: [choice(fields)] });
const FIRST = chunk({ prompt_token_ids: [7, 8, 9] });
const LAST = chunk({ finish_reason: 'stop' });
const usage = (prompt_tokens: number, completion_tokens?: number) => ({
  choices: [],
  usage: { prompt_tokens, ...(completion_tokens !== undefined && { completion_tokens }) },
});

/** In an event: what it and those before it have brought. */
const counting = (completion_tokens: number) => ({ usage: usage(3, completion_tokens).usage });

function run(chunks: readonly unknown[], sent: SentRequest = SENT) {
  let state = startStream(sent);
  const logprobs: number[] = [];
  for (const one of chunks) {
    const step = assemble(state, one);
    state = step.state;
    logprobs.push(...(step.delta?.logprobs ?? []));
  }
  return { logprobs, ...finishStream(state) };
}

describe('a reply that can not be trained on is a fault that says what was expected and got', () => {
  const cases: [name: string, chunks: unknown[], message: RegExp, type?: FaultType][] = [
    ['no logprobs', [chunk({ logprobs: null })], /expected 2 logprobs for 2 ids, got none/],
    [
      'fewer logprobs than ids',
      [chunk({ logprobs: { token_logprobs: [-1] } })],
      /expected 2 logprobs for 2 ids, got 1/,
    ],
    [
      'ids that run past the stop token',
      [FIRST, chunk({ finish_reason: 'stop', stop_reason: 1 })],
      /expected the last id to be 1, the stop token that ended it, got 2/,
    ],
    ['more logprobs than ids', [chunk({ token_ids: [] })], /expected 0 logprobs for 0 ids, got 2/],
    [
      'a null logprob',
      [chunk({ logprobs: { token_logprobs: [-1, null] } })],
      /logprob of token 1: expected .* got null/,
    ],
    [
      'minus infinity',
      [FIRST, chunk({ logprobs: { token_logprobs: [-9999, -1] } })],
      /logprob of token 2: expected .* got -9999/,
    ],
    [
      'a logprob above 0 by more than rounding',
      [chunk({ logprobs: { token_logprobs: [-1, 2e-6] } })],
      /logprob of token 1: expected .* got 0\.000002/,
    ],
    [
      'an infinite logprob',
      [chunk({ logprobs: { token_logprobs: [-Infinity, -1] } })],
      /logprob of token 0: expected a number .*, got -Infinity/,
    ],
    ['no ids', [chunk({ token_ids: null })], /expected token_ids .* got none/],
    ['a negative id', [chunk({ token_ids: [-1, 2] })], /token_ids\.0: .*got -1/],
    [
      'a fractional id',
      [chunk({ token_ids: [1.5, 2] })],
      /token_ids\.0: expected a token id, .* got 1\.5/,
    ],
    [
      'an id beyond 32 bits',
      [chunk({ token_ids: [1, 2 ** 31] })],
      /token_ids\.1: expected a token id, an integer from 0 to 2147483647, got 2147483648/,
    ],
    ['no text', [chunk({ text: null })], /choices\.0\.text: expected string, got null/],
    ['no choices', [{ object: 'text_completion' }], /choices: expected array, got nothing/],
    ['text for a chunk', ['hello'], /expected object, got "hello"/],
    ['another choice', [chunk({ index: 1 })], /expected choice 0 only, got 1/],
    ['two choices', [{ choices: [choice(), choice()] }], /expected one choice, got 2/],
    [
      'a shorter prompt',
      [chunk({ prompt_token_ids: [8, 9] })],
      /prompt echo: expected 3 ids, got 2/,
    ],
    [
      'another prompt',
      [chunk({ prompt_token_ids: [7, 5, 9] })],
      /prompt echo: expected id 8 at 1, got 5/,
    ],
    [
      'a prompt of strings',
      [chunk({ prompt_token_ids: ['7', 8, 9] })],
      /prompt echo: expected id 7 at 0, got "7"/,
    ],
    ['a text for the echo', [chunk({ prompt_token_ids: 'hi' })], /expected an array, got "hi"/],
    [
      'tokens after the end',
      [FIRST, LAST, chunk()],
      /expected nothing after finish_reason "stop", got 2 more ids/,
    ],
    ['too many tokens', [FIRST, chunk(), chunk()], /expected at most 4 tokens, got 6/],
    [
      'an unknown finish reason',
      [FIRST, chunk({ finish_reason: 'repetition' })],
      /expected finish_reason "stop" or "length", got "repetition"/,
    ],
    ['a miscount', [FIRST, LAST, usage(3, 5)], /expected usage\.completion_tokens 4 .* got 5/],
    ['a count behind a lost end', [FIRST, usage(3, 4)], /completion_tokens 2 .* got 4/],
    ['no count', [FIRST, LAST], /expected usage\.completion_tokens 4 .* got none/],
    [
      'an event that came twice',
      [
        { ...FIRST, ...counting(2) },
        { ...FIRST, ...counting(2) },
      ],
      /expected usage\.completion_tokens 4 .* got 2/,
    ],
    [
      'an event behind one that was lost',
      [
        { ...FIRST, ...counting(2) },
        { ...LAST, ...counting(6) },
      ],
      /expected usage\.completion_tokens 4 .* got 6/,
    ],
    ['no echo and no usage', [LAST], /no prompt echo: expected usage\.prompt_tokens 3, got none/],
    ['no echo and another prompt', [LAST, usage(2, 2)], /usage\.prompt_tokens 3, got 2/],
    ['a cut', [FIRST], /after 2 tokens without a finish reason/, 'GenerationUnavailable'],
    ['nothing at all', [], /before its first token/, 'GenerationUnavailable'],
    [
      'an abort, whatever else is odd about it',
      [chunk({ finish_reason: 'abort' }), usage(1, 9)],
      /engine aborted the request after 2 tokens/,
      'GenerationUnavailable',
    ],
  ];
  for (const [name, chunks, message, type = 'ProtocolError'] of cases) {
    test(name, () => {
      assert.throws(
        () => run(chunks),
        (error) => {
          assert.ok(error instanceof Fault, String(error));
          assert.equal(error.type, type, error.message);
          assert.match(error.message, message);
          return true;
        },
      );
    });
  }
});

describe('a reply that is whole', () => {
  test('may leave the echo out when usage proves the prompt', () => {
    assert.equal(run([chunk(), LAST, usage(3, 4)]).finish_reason, 'stop');
  });

  test('may repeat the echo and the usage in each chunk', () => {
    const repeating = (completion_tokens: number, finish_reason: string | null) => ({
      ...chunk({ prompt_token_ids: [7, 8, 9], finish_reason }),
      ...{ usage: { prompt_tokens: 3, completion_tokens } },
    });
    assert.equal(run([repeating(2, null), repeating(4, 'length')]).finish_reason, 'length');
  });

  test('may be empty when it has a finish reason', () => {
    const empty = { token_ids: [], text: '', logprobs: null, prompt_token_ids: [7, 8, 9] };
    for (const finish_reason of ['stop', 'length']) {
      const end = run([chunk({ ...empty, finish_reason }), usage(3, 0)]);
      assert.deepEqual(end, { logprobs: [], finish_reason, stop_reason: null });
    }
  });

  test('has logprobs that rounding lifted above 0 stored as 0', () => {
    const noisy = chunk({
      prompt_token_ids: [7, 8, 9],
      logprobs: { token_logprobs: [1e-6, -0] },
      finish_reason: 'stop',
    });
    assert.deepEqual(run([noisy, usage(3, 2)]).logprobs, [0, 0]);
  });

  test('has no logprobs when none were asked for, even if some came', () => {
    const sent = { ...SENT, logprobs: false };
    assert.deepEqual(run([FIRST, LAST, usage(3, 4)], sent).logprobs, []);
    const without = chunk({ logprobs: null, finish_reason: 'stop' });
    assert.deepEqual(run([FIRST, without, usage(3, 4)], sent), {
      logprobs: [],
      finish_reason: 'stop',
      stop_reason: null,
    });
  });

  test('hands on no delta for a chunk without ids and text', () => {
    const state = startStream(SENT);
    const silent = chunk({ token_ids: [], text: '', logprobs: null });
    assert.equal(assemble(state, silent).delta, null);
    assert.equal(assemble(state, usage(3, 0)).delta, null);
    assert.deepEqual(assemble(state, chunk({ token_ids: [], logprobs: null })).delta, {
      token_ids: [],
      logprobs: [],
      text: 'ab',
    });
  });
});

describe('the likeliest ids', () => {
  const asked = { ...SENT, top_logprobs: 2 };
  const sent = (top_logprobs: unknown) =>
    assemble(startStream(asked), chunk({ logprobs: { token_logprobs: [-0.5, -1], top_logprobs } }))
      .delta;

  test('are given by id, the likeliest first, as many as were asked for', () => {
    const top = [
      { 'token_id:1': -0.5, 'token_id:9': -2, 'token_id:4': -1 },
      { 'token_id:7': 1e-7, 'token_id:2': -1, 'token_id:3': -9999 },
    ];
    assert.deepEqual(sent(top)?.top_logprobs, [
      [
        [1, -0.5],
        [4, -1],
      ],
      [
        [7, 0],
        [2, -1],
      ],
    ]);
  });

  test('are not there where none were asked for', () => {
    assert.equal(assemble(startStream(SENT), FIRST).delta?.top_logprobs, undefined);
  });

  for (const [what, top] of [
    ['none', undefined],
    ['too few', [{ 'token_id:1': -0.5 }]],
    ['texts in place of ids', [{ a: -0.5 }, { b: -1 }]],
    ['no numbers', [{ 'token_id:1': null }, { 'token_id:2': -1 }]],
    ['numbers above 0', [{ 'token_id:1': 3 }, { 'token_id:2': -1 }]],
    ['an empty one', [{}, { 'token_id:2': -1 }]],
    ['ids beyond 32 bits', [{ 'token_id:2147483648': -1 }, { 'token_id:2': -1 }]],
    ['logprobs that float32 has not', [{ 'token_id:1': -1e39 }, { 'token_id:2': -1 }]],
  ] as const) {
    test(`are a violation where they are ${what}`, () => {
      assert.throws(() => sent(top), /top_logprobs/);
    });
  }
});
