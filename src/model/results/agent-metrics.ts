import type { AgentSummary } from '../agent/summary.js';
import { PENALTIES, PENALTY_NAMES } from '../agent/penalties.js';
import {
  greatest,
  least,
  mean,
  median,
  rate,
  standardDeviation,
  sum,
  upstreamPercentile,
} from './statistics.js';
import type { Summary } from './summary.js';

type Metrics = Record<string, number>;

type Played = Summary & { agent: AgentSummary };

const playedByAgents = (summaries: readonly Summary[]): Played[] =>
  summaries.filter((summary): summary is Played => summary.agent !== undefined);

/** What NeMo RL tells of shaped rewards, and of rows that are not trained on because their agents ask for that. */
export function shapingMetrics(valid: readonly Summary[]): Metrics {
  const played = playedByAgents(valid);
  if (played.length === 0) return {};
  return {
    ...effortMetrics(played),
    ...penaltyMetrics(played),
    num_mask_sample_filtered: played.filter(({ agent }) => agent.masked).length,
  };
}

function effortMetrics(played: readonly Played[]): Metrics {
  const efforts = played.flatMap(({ agent: { shaping } }) => shaping?.effort ?? []);
  const low = efforts.filter((effort) => effort.low);
  const high = efforts.filter((effort) => !effort.low);
  const lengths = (own: readonly { length: number }[]): number[] => own.map(({ length }) => length);
  return {
    ...(low.length > 0 && {
      mean_length_reward_low: mean(low.map(({ length_reward = 0 }) => length_reward)),
      mean_reward_low: mean(low.map(({ reward = 0 }) => reward)),
      mean_length_low: mean(lengths(low)),
      median_length_low: median(lengths(low)),
    }),
    ...(high.length > 0 && {
      mean_length_high: mean(lengths(high)),
      median_length_high: median(lengths(high)),
    }),
  };
}

/** The share of rollouts with each mistake that was looked for. */
function penaltyMetrics(played: readonly Played[]): Metrics {
  const found = played.map(({ agent: { shaping } }) => shaping?.penalties ?? {});
  const looked = PENALTY_NAMES.filter((name) => found.some((own) => own[name] !== undefined));
  return Object.fromEntries(
    looked.map((name) => [PENALTIES[name].rate, rate(found, (own) => own[name] === true)]),
  );
}

/** NeMo RL's metrics of a group that agents played, without its histograms. Prompts count as tokens. */
export function agentGroupMetrics(valid: readonly Summary[]): Metrics {
  const played = playedByAgents(valid);
  if (played.length === 0) return {};
  const turns = played.map((rollout) => rollout.turns);
  const longest = played.map((rollout) => rollout.max_gen_tokens);
  const generated = played.map((rollout) => rollout.gen_tokens);
  const rewards = played.map((rollout) => rollout.reward);
  return {
    ...ofEach(turns, { name: 'turns_per_sample' }),
    'turns_per_sample/p95': upstreamPercentile(turns, 95),
    'turns_per_sample/p99': upstreamPercentile(turns, 99),
    ...ofEach(played.map(totalOf), { name: 'total_tokens_per_sample' }),
    ...ofEach(generated, { name: 'gen_tokens_per_sample' }),
    mean_gen_tokens_per_sample: mean(generated),
    ...ofEach(longest, { name: 'max_gen_tokens_per_turn' }),
    'max_gen_tokens_per_turn/p95': upstreamPercentile(longest, 95),
    ...ofEach(rewards, { name: 'total_reward' }),
    natural_termination_rate: rate(played, (rollout) => !rollout.truncated),
    truncation_rate: rate(played, (rollout) => rollout.truncated),
    ...metricsByAgent(played),
    ...shapingMetrics(played),
  };
}

const totalOf = ({ gen_tokens, env_tokens, agent }: Played): number =>
  agent.prompt_tokens + gen_tokens + env_tokens;

/** The fields of an agent's first answer name the metrics. The mean counts an answer that lacks the number as 0. */
function metricsByAgent(played: readonly Played[]): Metrics {
  const metrics: Metrics = {};
  for (const name of new Set(played.map(({ agent }) => agent.name))) {
    const answers = played.flatMap(({ agent }) => (agent.name === name ? [agent.fields] : []));
    for (const field of Object.keys(answers[0] ?? {})) {
      const values = answers.flatMap((fields) =>
        Object.hasOwn(fields, field) ? (fields[field] ?? []) : [],
      );
      const of = answers.length;
      Object.assign(metrics, ofEach(values, { name: `${name}/${field}`, of }));
    }
  }
  return metrics;
}

/** Upstream's statistics; `of`: how many share the mean. A single value has no deviation. */
function ofEach(
  values: readonly number[],
  { name, of = values.length }: { name: string; of?: number },
): Metrics {
  if (values.length === 0) return {};
  return {
    [`${name}/mean`]: sum(values) / of,
    [`${name}/max`]: greatest(values),
    [`${name}/min`]: least(values),
    [`${name}/median`]: median(values),
    ...(values.length > 1 && { [`${name}/stddev`]: standardDeviation(values) }),
  };
}
