import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readAnswer } from '../../../src/environments/gym-agent/answer.js';
import type { Golden, Reply } from './recorded-results.js';
import { float32, recordedResults, rowOf, textOf } from './recorded-results.js';

/** Answers that are failure rows here, by place in their case, and what the failure says. Their siblings are rows. */
const FAULTS: Record<string, Record<number, RegExp>> = {
  // Upstream ends its whole stream with each of these, and its caller loses what had not been yielded.
  logprobs_key_missing: { 0: /^ProtocolError: response\.output\[0\]\.generation_log_probs: expected array, got nothing$/ },
  nan_logprobs_fail_stream: { 1: /^ProtocolError: response\.output\[0\]\.generation_log_probs\[1\]: .* Generation logprobs contain NaN$/ },
  prefix_broken_fails_stream: { 1: broken({ item: 1, token: 2, expected: 22, got: 99 }) },
  prefix_broken_on_third_turn: { 0: broken({ item: 2, token: 3, expected: 30, got: 40 }) },
  prefix_broken_retokenised_turn_2: { 0: broken({ item: 2, token: 4, expected: 31, got: 99 }) },
  result_is_text: { 0: /^\(input\): expected object, got "502 Bad Gateway"$/ },
  reward_components_mismatch: { 1: /^EnvironmentRejected: .* got reward 1, but its reward_components sum to 0\.9 \(\{"a":0\.5,"b":0\.4\}\)$/ },
  reward_missing: { 1: /^reward: expected a finite number, got nothing$/ },
  // Upstream makes rows of these: it never counts logprobs, and `mask_sample` is for its caller to obey.
  logprob_count_shorter: { 0: /^ProtocolError: response\.output\[0\]\.generation_log_probs: expected one for each of 3 generated ids, got 2$/ },
  extra_fields_kept: { 0: /^masked by mask_sample$/ },
  mask_sample_flags: { 0: /^masked by instance_config\.mask_sample$/, 1: /^masked by mask_sample$/, 3: /^masked by instance_config\.mask_sample$/ },
}; // prettier-ignore

/** A prompt that does not begin with the ids before it: says the token where it breaks, and its surroundings. */
function broken(at: { item: number; token: number; expected: number; got: number }): RegExp {
  return new RegExp(
    `^ProtocolError: response\\.output\\[${at.item}\\]\\.prompt_token_ids: Non-contiguous messages found! .* ` +
      `from token ${at.token} on: expected ${at.expected}, the prompt has ${at.got} ` +
      `\\(seen: … .*\\b${at.expected}\\b.* …; prompt: … .*\\b${at.got}\\b.* …\\)`,
  );
}

/** Upstream's stream ends, and no answer is at fault: a group is mixed, another row's request failed, or the caller's prompt has several messages. */
const ALL_ROWS = [
  'first_prompt_empty_in_group',
  'http_400',
  'http_500_after_first_group',
  'message_log_with_two_user_messages',
  'mixed_agents_in_group',
  'stream_ends_early',
  'task_index_mismatch',
];

/** A row here, since an evaluation has no use for tokens; it says why it has none. */
const UNTOKENIZED = 'no_generation_data';

const goldens = recordedResults();

/** Of an answer that is no row. */
function faultOf(answer: unknown): string | null {
  const read = readAnswer(textOf(answer));
  if (Array.isArray(read)) return read.map(({ where, what }) => `${where}: ${what}`).join();
  if (read.masked !== undefined) return `masked by ${read.masked}`;
  return read.refused === undefined ? null : `${read.refused.type}: ${read.refused.message}`;
}

/** Without tokens, and not as a rollout that has ended. */
function assertNoRow(answer: unknown): void {
  const row = rowOf(answer);
  if (Array.isArray(row)) return;
  assert.notEqual(row.stop_reason, 'terminated');
  assert.deepEqual([row.message_log, row.total_reward], [[], 0]);
}

function assertRow({ answer, expected }: Reply, { max_model_len, isReshaped }: Golden): void {
  const row = rowOf(answer, { max_seq_len: max_model_len });
  assert.ok(!Array.isArray(row));
  assert.deepEqual([row.failure, row.stop_reason, row.untokenized], [undefined, 'terminated', undefined]); // prettier-ignore
  assert.ok(row.message_log.length > 0);
  if (expected === undefined) return;
  assert.notEqual(expected.mask_sample, true);
  assert.deepEqual(float32(row.message_log), float32(expected.message_log));
  if (expected.truncated !== undefined) assert.equal(row.truncated, expected.truncated);
  for (const [component, value] of Object.entries(expected.components ?? {}))
    assert.equal(Math.fround(row.rewards[component] ?? 0), Math.fround(value));
  if (expected.total_reward !== undefined && !isReshaped)
    assert.equal(Math.fround(row.total_reward), Math.fround(Number(expected.total_reward)));
}

describe('recorded results of NeMo Gym', () => {
  for (const golden of goldens) {
    const { name, replies, error } = golden;
    const faults = FAULTS[name] ?? {};
    const failed = Object.keys(faults).length;
    const fate = error === null ? '' : ', where upstream ends its whole stream';
    test(`${name}: ${replies.length - failed} rows, ${failed} failures${fate}`, () => {
      for (const [index, reply] of replies.entries()) {
        const says = faults[index];
        const fault = faultOf(reply.answer);
        if (says === undefined) assert.equal(fault, null);
        else assert.match(fault ?? 'no fault', says);
        if (says !== undefined) assertNoRow(reply.answer);
        else if (name !== UNTOKENIZED) assertRow(reply, golden);
      }
    });
  }

  test('an answer without generation data is a row without tokens that says why', () => {
    const [reply] = goldens.find(({ name }) => name === UNTOKENIZED)?.replies ?? [];
    const row = rowOf(reply?.answer);
    assert.ok(!Array.isArray(row));
    assert.deepEqual([row.message_log, row.failure], [[], undefined]);
    assert.match(
      row.untokenized ?? '',
      /^NeMo Gym returned a result with no generation data: .* they are reasoning, function_call, message\./,
    );
  });

  test('every case where upstream ends its stream is named here', () => {
    const named = [...Object.keys(FAULTS), ...ALL_ROWS, UNTOKENIZED];
    const failing = goldens.filter(({ error }) => error !== null).map(({ name }) => name);
    assert.deepEqual(failing.filter((name) => !named.includes(name)), []); // prettier-ignore
    const absent = named.filter((name) => !goldens.some((golden) => golden.name === name));
    assert.deepEqual(absent, []);
    const beyond = Object.entries(FAULTS).filter(([name, faults]) => {
      const { replies = [] } = goldens.find((golden) => golden.name === name) ?? {};
      return Object.keys(faults).some((index) => Number(index) >= replies.length);
    });
    assert.deepEqual(beyond, []);
  });
});
