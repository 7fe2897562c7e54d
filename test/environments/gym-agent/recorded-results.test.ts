import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readAnswer } from '../../../src/environments/gym-agent/answer.js';
import type { Row } from '../../../src/model/results/row.js';
import { float32, recordedResults, rowOf } from './recorded-results.js';

/**
 * Answers that are no row here. Upstream ends its whole stream with each of them, and its caller loses what had not
 * been yielded; here their siblings are rows.
 */
const REFUSED: Record<string, { reply: number; says: RegExp }> = {
  logprob_count_shorter: {
    reply: 0,
    says: /^response\.output\[0\]\.generation_log_probs: expected one for each of 3 generated ids, got 2$/,
  },
  logprobs_key_missing: { reply: 0, says: /output\[0\]\.generation_log_probs: expected array/ },
  nan_logprobs_fail_stream: { reply: 1, says: /Generation logprobs contain NaN$/ },
  prefix_broken_fails_stream: { reply: 1, says: /Non-contiguous messages found!/ },
  prefix_broken_on_third_turn: { reply: 0, says: /Non-contiguous messages found!/ },
  prefix_broken_retokenised_turn_2: {
    reply: 0,
    says: /^response\.output\[2\]\.prompt_token_ids: Non-contiguous .* from token 4 on: expected 31, the prompt has 99 \(seen: … 22, 30, 31, 32, 1 …; prompt: … 22, 30, 99, 1, 40 …\)/,
  },
  reward_components_mismatch: {
    reply: 1,
    says: /got reward 1, but its reward_components sum to 0\.9 \(\{"a":0\.5,"b":0\.4\}\)/,
  },
};

/** What is no usable answer at all. */
const UNREADABLE: Record<string, { reply: number; where: string }> = {
  result_is_text: { reply: 0, where: '(input)' },
  reward_missing: { reply: 1, where: 'reward' },
};

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

/** The row of a reply that is one. */
function validRow(answer: unknown, max_seq_len: number): Row {
  const row = rowOf(answer, { max_seq_len });
  if (Array.isArray(row)) throw new Error(JSON.stringify(row));
  return row;
}

describe('recorded results of NeMo Gym', () => {
  for (const { name, replies, error, max_model_len, isReshaped } of goldens) {
    const bad = REFUSED[name]?.reply ?? UNREADABLE[name]?.reply;
    const fate = error === null ? '' : ', where upstream ends its stream';
    test(`${name}: ${String(bad === undefined ? replies.length : replies.length - 1)} rows${fate}`, () => {
      for (const [index, { answer, expected }] of replies.entries()) {
        if (index === bad || name === UNTOKENIZED) continue;
        const row = validRow(answer, max_model_len);
        // Whatever upstream masks is no row here, and neither is an answer with a mark of its own.
        if (isMasked(answer)) continue;
        assert.notEqual(expected?.mask_sample, true);
        assert.equal(row.failure, undefined);
        assert.ok(row.message_log.length > 0);
        if (expected === undefined) continue;
        assert.deepEqual(float32(row.message_log), float32(expected.message_log));
        if (expected.truncated !== undefined) assert.equal(row.truncated, expected.truncated);
        for (const [component, value] of Object.entries(expected.components ?? {}))
          assert.equal(Math.fround(row.rewards[component] ?? 0), Math.fround(value));
        if (expected.total_reward !== undefined && !isReshaped)
          assert.equal(Math.fround(row.total_reward), Math.fround(Number(expected.total_reward)));
      }
    });
  }

  for (const [name, { reply, says }] of Object.entries(REFUSED)) {
    test(`${name}: the answer at fault is refused`, () => {
      const answer = goldens.find((golden) => golden.name === name)?.replies[reply]?.answer;
      const read = readAnswer(JSON.stringify(answer).replaceAll('"NaN"', 'null'));
      assert.ok(!Array.isArray(read));
      assert.match(read.refused?.message ?? '', says);
      const row = rowOf(answer);
      assert.ok(!Array.isArray(row) && row.stop_reason !== 'terminated');
      assert.deepEqual(row.message_log, []);
    });
  }

  for (const [name, { reply, where }] of Object.entries(UNREADABLE)) {
    test(`${name}: the answer at fault is rejected`, () => {
      const answer = goldens.find((golden) => golden.name === name)?.replies[reply]?.answer;
      const read = rowOf(answer);
      assert.ok(Array.isArray(read));
      assert.equal(read[0]?.where, where);
    });
  }

  test('an answer without generation data is a row without tokens that says why', () => {
    const [reply] = goldens.find(({ name }) => name === UNTOKENIZED)?.replies ?? [];
    const row = validRow(reply?.answer, 4096);
    assert.deepEqual([row.message_log, row.failure], [[], undefined]);
    assert.match(
      row.untokenized ?? '',
      /^NeMo Gym returned a result with no generation data: .* they are reasoning, function_call, message\./,
    );
  });

  test('every case where upstream ends its stream is named here', () => {
    const named = [...Object.keys(REFUSED), ...Object.keys(UNREADABLE), ...ALL_ROWS, UNTOKENIZED];
    const failing = goldens.filter(({ error }) => error !== null).map(({ name }) => name);
    assert.deepEqual(failing.filter((name) => !named.includes(name)), []); // prettier-ignore
    const absent = named.filter((name) => !goldens.some((golden) => golden.name === name));
    assert.deepEqual(absent, []);
  });
});

/** Its reward means nothing: it is a failure of the batch's files. */
const isMasked = (answer: unknown): boolean => {
  const read = readAnswer(JSON.stringify(answer));
  return !Array.isArray(read) && read.masked !== undefined;
};
