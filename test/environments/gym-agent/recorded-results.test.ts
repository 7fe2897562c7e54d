import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { unstamped } from '../../../src/model/agent/placed-row.js';
import { agentGroupMetrics } from '../../../src/model/results/agent-metrics.js';
import { groupTable } from '../../../src/model/results/group-table.js';
import { GENERATION } from '../../fakes/journal-lines.js';
import type { Golden, Json, Played, Reply } from './recorded-results.js';
import {
  float32,
  infoOf,
  played,
  readReply,
  recordedResults,
  repliesOf,
} from './recorded-results.js';
import { plainOf } from '../../../src/platform/json/kept.js';

/** Answers that are failure rows here, by place in their case, and what the failure says. Their siblings are rows. */
const FAULTS: Record<string, Record<number, RegExp>> = {
  // Upstream ends its whole stream with each of these, and its caller loses what had not been yielded.
  logprobs_key_missing: {
    0: /^ProtocolError: response\.output\[0\]\.generation_log_probs: expected array, got nothing$/,
  },
  nan_logprobs_fail_stream: {
    1: /^ProtocolError: response\.output\[0\]\.generation_log_probs\[1\]: .* Generation logprobs contain NaN$/,
  },
  prefix_broken_fails_stream: { 1: broken({ item: 1, token: 2, expected: 22, got: 99 }) },
  prefix_broken_on_third_turn: { 0: broken({ item: 2, token: 3, expected: 30, got: 40 }) },
  prefix_broken_retokenised_turn_2: { 0: broken({ item: 2, token: 4, expected: 31, got: 99 }) },
  result_is_text: { 0: /^\(input\): expected object, got "502 Bad Gateway"$/ },
  reward_components_mismatch: {
    1: /^EnvironmentRejected: .* got reward 1, but its reward_components sum to 0\.9 \(\{"a":0\.5,"b":0\.4\}\)$/,
  },
  reward_missing: { 1: /^reward: expected a finite number, got nothing$/ },
  // Upstream makes a row of this: it never counts logprobs.
  logprob_count_shorter: {
    0: /^ProtocolError: response\.output\[0\]\.generation_log_probs: expected one for each of 3 generated ids, got 2$/,
  },
};

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

/** Upstream sends nothing: its caller asks for what no row can have. */
const UNSENT = 'top_k_not_supported';

/** A row here, since an evaluation has no use for tokens; it says why it has none. */
const UNTOKENIZED = 'no_generation_data';

/** Rows that upstream trains on although they ask not to be: it does not look at the answer's own `mask_sample`. */
const MASKED_HERE: Record<string, number[]> = { extra_fields_kept: [0], mask_sample_flags: [1] };

const goldens = recordedResults();

/** Of an answer that is no row. */
function faultOf(golden: Golden, reply: Reply): string | null {
  const read = readReply(golden, reply);
  if (Array.isArray(read)) return read.map(({ where, what }) => `${where}: ${what}`).join();
  if (read.masked !== undefined) return `masked by ${read.masked}`;
  return read.refused === undefined ? null : `${read.refused.type}: ${read.refused.message}`;
}

/** Without tokens, and not as a rollout that has ended. */
function assertNoRow(golden: Golden, reply: Reply): void {
  const made = played(golden, reply);
  if (Array.isArray(made)) return;
  assert.notEqual(made.row.stop_reason, 'terminated');
  assert.deepEqual([made.row.message_log, made.row.total_reward], [[], 0]);
}

function rowOf(golden: Golden, reply: Reply): Played {
  const made = played(golden, reply);
  assert.ok(!Array.isArray(made));
  return made;
}

function assertRow(golden: Golden, reply: Reply): void {
  const { row, summary } = rowOf(golden, reply);
  assert.deepEqual(
    [row.failure, row.stop_reason, row.untokenized],
    [undefined, 'terminated', undefined],
  );
  assert.ok(row.message_log.length > 0);
  const { expected } = reply;
  if (expected === undefined) return;
  assert.deepEqual(float32(row.message_log), float32(expected.message_log));
  if (expected.full_result !== undefined)
    assert.deepEqual(leftOf(plainOf(row.agent_result)), leftOf(expected.full_result));
  const isMasked =
    expected.mask_sample === true || (MASKED_HERE[golden.name] ?? []).includes(reply.at);
  assert.equal(summary.agent?.masked, isMasked);
  assert.equal(row.loss_multiplier, isMasked ? 0 : (expected.loss_multiplier ?? 1));
  if (expected.total_reward === undefined) return;
  assert.equal(Math.fround(row.total_reward), Math.fround(Number(expected.total_reward)));
  assert.equal(row.truncated, expected.truncated);
  assert.deepEqual([row.prompt_tokens, summary.agent.name], [expected.length, expected.agent]);
  // Upstream pads them.
  assert.deepEqual(row.message_log[0]?.token_ids, expected.input_ids?.slice(0, expected.length));
  for (const [component, value] of Object.entries(expected.components ?? {}))
    assert.equal(Math.fround(row.rewards[component] ?? 0), Math.fround(value));
}

/** Upstream puts each call's decoded text in place of its tokens, and may leave the prompt's pictures out. */
const leftOf = (result: unknown): unknown =>
  JSON.parse(JSON.stringify(result), (key, value: unknown) => {
    if (key === 'prompt_str' || key === 'generation_str') return undefined;
    return Array.isArray(value)
      ? value.filter((item) => (item as Json)['type'] !== 'input_image')
      : value;
  });

describe('recorded results of NeMo Gym', () => {
  for (const golden of goldens) {
    const { name, expected } = golden;
    const replies = repliesOf(golden);
    const faults = FAULTS[name] ?? {};
    const failed = Object.keys(faults).length;
    const fate = expected.error === undefined ? '' : ', where upstream ends its whole stream';
    test(`${name}: ${replies.length - failed} rows, ${failed} failures${fate}`, () => {
      for (const reply of replies) {
        const says = faults[reply.at];
        const fault = faultOf(golden, reply);
        if (says === undefined) assert.equal(fault, null);
        else assert.match(fault ?? 'no fault', says);
        if (says !== undefined) assertNoRow(golden, reply);
        else if (name !== UNTOKENIZED) assertRow(golden, reply);
      }
    });
  }

  test('an answer without generation data is a row without tokens that says why', () => {
    const { golden, reply } = only(UNTOKENIZED);
    const { row } = rowOf(golden, reply);
    assert.deepEqual([row.message_log, row.failure], [[], undefined]);
    assert.match(
      row.untokenized ?? '',
      /^NeMo Gym returned a result with no generation data: .* they are reasoning, function_call, message\./,
    );
  });

  test('every case where upstream ends its stream is named here', () => {
    const named = [...Object.keys(FAULTS), ...ALL_ROWS, UNTOKENIZED, UNSENT];
    const failing = goldens
      .filter(({ expected }) => expected.error !== undefined)
      .map(({ name }) => name);
    assert.deepEqual(
      failing.filter((name) => !named.includes(name)),
      [],
    );
    const absent = named.filter((name) => !goldens.some((golden) => golden.name === name));
    assert.deepEqual(absent, []);
    const beyond = Object.entries(FAULTS).filter(([name, faults]) => {
      const golden = goldens.find((one) => one.name === name);
      const places = golden === undefined ? [] : repliesOf(golden).map(({ at }) => at);
      return Object.keys(faults).some((at) => !places.includes(Number(at)));
    });
    assert.deepEqual(beyond, []);
  });
});

function only(name: string): { golden: Golden; reply: Reply } {
  const golden = goldens.find((one) => one.name === name);
  const [reply] = golden === undefined ? [] : repliesOf(golden);
  assert.ok(golden !== undefined && reply !== undefined);
  return { golden, reply };
}

describe('recorded groups of NeMo RL', () => {
  const withGroups = goldens.filter(({ expected }) => (expected.groups ?? []).length > 0);
  for (const golden of withGroups) {
    const { name, kind, expected } = golden;
    test(`${name}: each group has the recorded metrics`, () => {
      const replies = repliesOf(golden).filter((reply) => reply.expected !== undefined);
      const summaries = replies.map((reply) => rowOf(golden, reply).summary);
      const lines = groupTable(summaries);
      for (const { task_index, rollout_metrics } of expected.groups ?? []) {
        const task = task_index ?? 0;
        const own = agentGroupMetrics(summaries.filter(({ agent }) => agent?.task_index === task));
        assertMetrics(own, rollout_metrics);
        // Only upstream's sync batch is one group of several agents.
        const line = lines.find((one) => one.task_index === task);
        if (kind === 'stream')
          assertMetrics(
            Object.fromEntries(Object.keys(own).map((key) => [key, line?.[key]])),
            rollout_metrics,
          );
      }
      if (kind === 'stream') assert.equal(lines.length, expected.groups?.length);
    });
  }

  test('are compared by all of their metrics, and there are as many as were recorded', () => {
    assert.equal(withGroups.length, 22);
    const { golden } = only('group_of_two');
    const [group] = golden.expected.groups ?? [];
    assert.equal(comparable(group?.rollout_metrics ?? {}).length, 36);
  });
});

/** Without times, tables and histograms; a single value has no deviation here, and NaN upstream. */
const comparable = (metrics: Json): [string, unknown][] =>
  Object.entries(metrics).filter(([name]) => !/^timing\/|\/histogram$|\/full_result$/.test(name));

function assertMetrics(own: object, recorded: Json): void {
  const expected = comparable(recorded).filter(([, value]) => value !== 'NaN');
  const names = [...expected.map(([name]) => name), 'num_mask_sample_filtered'];
  assert.deepEqual(Object.keys(own).sort(), names.sort());
  for (const [name, value] of expected) {
    const [got, wanted] = [Number((own as Json)[name]), Number(value)];
    const most = 1e-12 * Math.max(1, Math.abs(wanted));
    assert.ok(Math.abs(got - wanted) <= most, `${name}: expected ${wanted}, got ${got}`);
  }
}

describe('rows as NeMo RL sends them', () => {
  for (const golden of goldens) {
    const { name, expected } = golden;
    const sent = expected.dispatched_rows ?? [];
    if (sent.length === 0) continue;
    test(`${name}: ${sent.length} rows are stamped as recorded`, () => {
      for (const [at, { _rowidx, ...row }] of sent.entries()) {
        assert.equal(_rowidx, at, 'its place, which the group knows here');
        assert.deepEqual(JSON.parse(infoOf(golden, at).row), row);
      }
    });
  }

  test('top_k_not_supported: settings that no row has are named, and nothing is sent', () => {
    const { golden } = only(UNSENT);
    assert.match(golden.expected.error?.message ?? '', /^Top k is not supported/);
    assert.equal(golden.expected.dispatched_rows, null);
    assert.deepEqual(unstamped({ ...GENERATION, ...golden.input.config?.generation_config }), [
      'top_k',
    ]);
    assert.deepEqual(unstamped(GENERATION), []);
  });
});
