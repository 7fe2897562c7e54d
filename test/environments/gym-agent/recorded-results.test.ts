import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { unstamped } from '../../../src/model/agent/placed-row.js';
import { agentGroupMetrics } from '../../../src/model/results/agent-metrics.js';
import { groupTable } from '../../../src/model/results/group-table.js';
import { GENERATION } from '../../fakes/journal-lines.js';
import type { Golden, Json, Message, Reply } from './recorded-results.js';
import {
  endOfReply,
  infoOf,
  played,
  recordedResults,
  repliesOf,
  tokensOf,
} from './recorded-results.js';
import { plainOf } from '../../../src/platform/json/kept.js';

/** Answers that are failure rows here, by place in their case, and what the failure says. Their siblings are rows. */
const FAULTS: Record<string, Record<number, RegExp>> = {
  // Upstream ends its whole stream with each of these, and its caller loses what had not been yielded.
  result_is_text: {
    0: /^EnvironmentRejected: .* answered: \(input\): expected object, got "502 Bad Gateway"$/,
  },
  reward_components_mismatch: {
    1: /^EnvironmentRejected: .* got reward 1, but its reward_components sum to 0\.9 \(\{"a":0\.5,"b":0\.4\}\)$/,
  },
  reward_missing: {
    1: /^EnvironmentRejected: .* answered: reward: expected a finite number, got nothing$/,
  },
};

const NO_LOGPROBS = 'the gateway samples no token without a logprob';
const OTHER_SEQUENCE = 'a prompt that changes the ids before it begins another sequence';

/** Answers with tokens that a gateway does not sample, by place in their case. Upstream reads them from the answer. */
const NOT_SAMPLED: Record<string, { at: number; why: string }> = {
  logprobs_key_missing: { at: 0, why: NO_LOGPROBS },
  nan_logprobs_fail_stream: { at: 1, why: NO_LOGPROBS },
  logprob_count_shorter: { at: 0, why: NO_LOGPROBS },
  prefix_broken_fails_stream: { at: 1, why: OTHER_SEQUENCE },
  prefix_broken_on_third_turn: { at: 0, why: OTHER_SEQUENCE },
  prefix_broken_retokenised_turn_2: { at: 0, why: OTHER_SEQUENCE },
};

const sampledReplies = (golden: Golden): Reply[] =>
  repliesOf(golden).filter(({ at }) => NOT_SAMPLED[golden.name]?.at !== at);

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

async function assertNoRow(
  golden: Golden,
  { says, ...reply }: Reply & { says: RegExp },
): Promise<void> {
  const { failure } = await endOfReply(golden, reply);
  assert.match(`${failure?.type}: ${failure?.message}`, says);
  const { row } = await played(golden, reply);
  assert.deepEqual([row.stop_reason, row.train_mask, row.total_reward], ['failed', [], 0]);
}

async function assertRow(golden: Golden, reply: Reply): Promise<void> {
  const { row, summary } = await played(golden, reply);
  assert.deepEqual(
    [row.failure, row.stop_reason, row.untokenized],
    [undefined, 'terminated', undefined],
  );
  assert.ok(row.message_log.length > 0);
  assert.deepEqual(row.sequences, []);
  const { expected } = reply;
  if (expected === undefined) return;
  assert.deepEqual(tokensOf(row.message_log), tokensOf(expected.message_log));
  if (expected.full_result !== undefined)
    assert.deepEqual(leftOf(plainOf(row.agent_result)), leftOf(expected.full_result));
  const isMasked =
    expected.mask_sample === true || (MASKED_HERE[golden.name] ?? []).includes(reply.at);
  assert.equal(summary.agent?.masked, isMasked);
  assert.equal(row.loss_multiplier, isMasked ? 0 : (expected.loss_multiplier ?? 1));
  const trained = row.loss_multiplier === 0 ? [] : sampledIn(expected.message_log);
  assert.deepEqual(row.train_mask, trained);
  if (expected.total_reward === undefined) return;
  assert.equal(Math.fround(row.total_reward), Math.fround(Number(expected.total_reward)));
  assert.equal(row.truncated, expected.truncated);
  assert.deepEqual([row.prompt_tokens, summary.agent.name], [expected.length, expected.agent]);
  // Upstream pads them.
  assert.deepEqual(row.message_log[0]?.token_ids, expected.input_ids?.slice(0, expected.length));
  for (const [component, value] of Object.entries(expected.components ?? {}))
    assert.equal(Math.fround(row.rewards[component] ?? 0), Math.fround(value));
}

/** The runs of ids that upstream trains on. */
function sampledIn(log: readonly Message[]): { start: number; end: number }[] {
  const runs: { start: number; end: number }[] = [];
  let end = 0;
  for (const { token_ids, generation_logprobs } of log) {
    const start = end;
    end += token_ids.length;
    const last = runs.at(-1);
    if (generation_logprobs === undefined) continue;
    if (last?.end === start) last.end = end;
    else runs.push({ start, end });
  }
  return runs;
}

/** What a gateway does not answer, since it keeps it, or has none. */
const OF_CALLS: ReadonlySet<string> = new Set([
  'prompt_token_ids',
  'generation_token_ids',
  'generation_log_probs',
  'routed_experts',
]);

/** Upstream puts each call's decoded text in place of its tokens, and may leave the prompt's pictures out. */
const leftOf = (result: unknown): unknown =>
  JSON.parse(JSON.stringify(result), (key, value: unknown) => {
    if (key === 'prompt_str' || key === 'generation_str' || OF_CALLS.has(key)) return undefined;
    return Array.isArray(value)
      ? value.filter((item) => (item as Json)['type'] !== 'input_image')
      : value;
  });

describe('recorded results of NeMo Gym', () => {
  for (const golden of goldens) {
    const { name, expected } = golden;
    const replies = sampledReplies(golden);
    if (replies.length === 0) continue;
    const faults = FAULTS[name] ?? {};
    const failed = Object.keys(faults).length;
    const fate = expected.error === undefined ? '' : ', where upstream ends its whole stream';
    test(`${name}: ${replies.length - failed} rows, ${failed} failures${fate}`, async () => {
      for (const reply of replies) {
        const says = faults[reply.at];
        if (says !== undefined) await assertNoRow(golden, { ...reply, says });
        else if (name !== UNTOKENIZED) await assertRow(golden, reply);
      }
    });
  }

  test('an answer without calls is a row without tokens that says why', async () => {
    const { golden, reply } = only(UNTOKENIZED);
    const { row } = await played(golden, reply);
    assert.deepEqual([row.message_log, row.train_mask, row.failure], [[], [], undefined]);
    assert.match(row.untokenized ?? '', /^expected calls .* that this policy answered, got none/);
  });

  test('every case where upstream ends its stream is named here', () => {
    const own = [...Object.keys(FAULTS), ...Object.keys(NOT_SAMPLED)];
    const named = [...own, ...ALL_ROWS, UNTOKENIZED, UNSENT];
    const failing = goldens
      .filter(({ expected }) => expected.error !== undefined)
      .map(({ name }) => name);
    assert.deepEqual(
      failing.filter((name) => !named.includes(name)),
      [],
    );
    const places = new Set(
      goldens.flatMap((golden) => repliesOf(golden).map(({ at }) => `${golden.name} ${at}`)),
    );
    const asked = [
      ...Object.entries(FAULTS).flatMap(([name, faults]) =>
        Object.keys(faults).map((at) => `${name} ${at}`),
      ),
      ...Object.entries(NOT_SAMPLED).map(([name, { at }]) => `${name} ${at}`),
      ...[...ALL_ROWS, UNTOKENIZED, UNSENT].map((name) => `${name} 0`),
    ];
    assert.deepEqual(
      asked.filter((place) => !places.has(place)),
      [],
    );
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
    test(`${name}: each group has the recorded metrics`, async () => {
      const replies = repliesOf(golden).filter((reply) => reply.expected !== undefined);
      const rows = await Promise.all(replies.map((reply) => played(golden, reply)));
      const summaries = rows.map(({ summary }) => summary);
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
