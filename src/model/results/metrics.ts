import { RULES, type Semantics } from '../semantics.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import { versionOf } from '../workflow-safe/stream/lag.js';
import { isFlat, trainedReward } from '../workflow-safe/trained-reward.js';
import { shapingMetrics } from './agent-metrics.js';
import { UNKNOWN, groupsOf, type Summary } from './summary.js';
import { treeMetrics } from './tree-summary.js';
import {
  greatest,
  least,
  mean,
  percentiles,
  rate,
  standardDeviation,
  sum,
  upstreamPercentile,
} from './statistics.js';
import { cutToBytes, utf8Length } from '../../platform/utf8.js';

/**
 * Metrics of a batch over its valid rollouts, as one flat object. Upstream's names and numbers come first (NeMo RL
 * `experience/rollouts.py`), then further ones. Faults and attempts cover all rollouts, even if none is valid, because
 * they show why a batch failed. docs/metrics.md explains each.
 */
export type Metrics = Record<string, number>;

/** Environments choose component names freely, and the result must stay under 16 kB. Rows have them all. */
const MAX_COMPONENTS = 24;
/** Limit for metrics per task: the first tasks by name, as far as they fit. */
const MAX_TASK_BYTES = 3072;
const MAX_NAME_BYTES = 80;

export const isValid = (summary: { stop_reason: string }): boolean =>
  VALID_STOP_REASONS.has(summary.stop_reason);

export function computeMetrics(all: readonly Summary[], semantics: Semantics): Metrics {
  const valid = all.filter(isValid);
  if (valid.length === 0) return troubleMetrics(all);
  return {
    ...upstreamMetrics(valid, semantics),
    ...rewardMetrics(valid),
    ...groupMetrics(valid),
    ...shapingMetrics(valid),
    ...treeMetrics(valid),
    ...stopMetrics(valid),
    ...troubleMetrics(all),
    ...timeMetrics(valid),
    ...taskMetrics(all, valid),
  };
}

/** Lengths in tokens, where a completion policy stops or replaces rollouts: those that stay are shorter. */
export function computeLengths(all: readonly Summary[]): Metrics {
  const wasPlayed = ({ started_at }: Summary): boolean => started_at > 0;
  const stopped = all.filter(({ stop_reason }) => stop_reason === 'stopped');
  const replaced = replacedOf(all);
  return {
    ...meanTokens('completed', all.filter(isValid)),
    ...meanTokens('stopped', stopped.filter(wasPlayed)),
    ...(replaced.length > 0 && { 'replaced/count': replaced.length }),
    ...meanTokens('replaced', replaced.filter(wasPlayed)),
  };
}

const lengthOf = ({ gen_tokens, env_tokens }: Summary): number => gen_tokens + env_tokens;

function meanTokens(name: string, rollouts: readonly Summary[]): Metrics {
  if (rollouts.length === 0) return {};
  return { [`${name}/mean_tokens`]: mean(rollouts.map(lengthOf)) };
}

/** Failed members that were replaced. A member that a continued batch completed is not one of them. */
function replacedOf(all: readonly Summary[]): Summary[] {
  const places = new Set(all.map(({ row, replaces }) => `${row}-${replaces ?? ''}`));
  return all.filter(
    ({ row, repeat, stop_reason }) =>
      (stop_reason === 'failed' || stop_reason === 'timeout') && places.has(`${row}-${repeat}`),
  );
}

/** Upstream's metrics, without its histograms, whose size is unbounded. */
function upstreamMetrics(valid: readonly Summary[], semantics: Semantics): Metrics {
  const turns = valid.map((rollout) => rollout.turns);
  const generated = valid.map((rollout) => rollout.gen_tokens);
  const longest = valid.map((rollout) => rollout.max_gen_tokens);
  const rewards = valid.map((rollout) => rollout.reward);
  return {
    total_turns: sum(turns),
    avg_turns_per_sample: mean(turns),
    max_turns_per_sample: greatest(turns),
    'turns_per_sample/p95': upstreamPercentile(turns, 95),
    'turns_per_sample/p99': upstreamPercentile(turns, 99),
    natural_termination_rate: rate(
      valid,
      ({ terminated, truncated }) => terminated || (RULES[semantics].in_lock_step && truncated),
    ),
    truncation_rate: rate(valid, ({ truncated }) => truncated),
    max_turns_reached_rate: rate(valid, ({ max_turns_reached }) => max_turns_reached),
    mean_total_tokens_per_sample: mean(valid.map(lengthOf)),
    mean_gen_tokens_per_sample: mean(generated),
    max_gen_tokens_per_sample: greatest(generated),
    mean_env_tokens_per_sample: mean(valid.map((rollout) => rollout.env_tokens)),
    'max_gen_tokens_per_turn/max': greatest(longest),
    'max_gen_tokens_per_turn/mean': mean(longest),
    'max_gen_tokens_per_turn/p95': upstreamPercentile(longest, 95),
    mean_total_reward: mean(rewards),
    max_total_reward: greatest(rewards),
    min_total_reward: least(rewards),
  };
}

function rewardMetrics(valid: readonly Summary[]): Metrics {
  const rewards = valid.map((rollout) => rollout.reward);
  return {
    'total_reward/mean': mean(rewards),
    'total_reward/std': standardDeviation(rewards),
    'total_reward/min': least(rewards),
    'total_reward/max': greatest(rewards),
    ...percentiles(rewards, { name: 'total_reward', of: [10, 50, 90] }),
    ...componentMetrics(valid),
  };
}

function componentMetrics(valid: readonly Summary[]): Metrics {
  const names = new Set(valid.flatMap((rollout) => Object.keys(rollout.rewards)));
  const metrics: Metrics = {};
  for (const name of [...names].sort().slice(0, MAX_COMPONENTS)) {
    const cut = `rewards/${cutToBytes(name, MAX_NAME_BYTES)}`;
    // Names with an equal, longer beginning are distinguished by their order.
    let metric = `${cut}/mean`;
    for (let i = 2; metric in metrics; i++) metric = `${cut}~${i}/mean`;
    // As upstream, a rollout that lacks a component counts as 0.
    metrics[metric] = mean(
      valid.map((rollout) =>
        Object.hasOwn(rollout.rewards, name) ? (rollout.rewards[name] ?? 0) : 0,
      ),
    );
  }
  return metrics;
}

/** Solved means a reward above 0 for its trainer. */
const isSolved = (reward: number): boolean => trainedReward(reward) > 0;

function groupMetrics(valid: readonly Summary[]): Metrics {
  const groups = rewardsByGroup(valid);
  return {
    'group/count': groups.length,
    'group/solve_all_rate': rate(groups, (rewards) => rewards.every(isSolved)),
    'group/solve_none_rate': rate(groups, (rewards) => !rewards.some(isSolved)),
    'group/zero_variance_rate': rate(groups, isFlat),
    ...passMetrics(groups),
    ...ofEachK(groups, { name: 'avg', value: (rewards, k) => mean(rewards.slice(0, k)) }),
  };
}

const passMetrics = (groups: readonly number[][]): Metrics =>
  ofEachK(groups, { name: 'pass', value: passAtK });

/** The mean over the groups that have k rewards, for powers of two and the largest group's size. */
function ofEachK(
  groups: readonly number[][],
  { name, value }: { name: string; value: (rewards: readonly number[], k: number) => number },
): Metrics {
  const largest = greatest(groups.map((group) => group.length));
  return Object.fromEntries(
    powersOfTwoTo(largest).map((k) => {
      const enough = groups.filter((group) => group.length >= k);
      return [`${name}@${k}`, mean(enough.map((rewards) => value(rewards, k)))];
    }),
  );
}

/** Rewards of each group, in the order of repeats. */
const rewardsByGroup = (valid: readonly Summary[]): number[][] =>
  groupsOf(valid.toSorted((a, b) => a.row - b.row || a.repeat - b.repeat)).map((group) =>
    group.map(({ reward }) => reward),
  );

/** Binary rewards: the unbiased estimator 1 - C(n-c, k)/C(n, k). Otherwise the best of the first k (NeMo Gym's rule). */
function passAtK(rewards: readonly number[], k: number): number {
  const trained = rewards.map(trainedReward);
  if (!trained.every((reward) => reward === 0 || reward === 1))
    return greatest(rewards.slice(0, k));
  const wrong = trained.filter((reward) => reward === 0).length;
  let allWrong = 1;
  for (let i = 0; i < k; i++) allWrong *= Math.max(0, wrong - i) / (rewards.length - i);
  return 1 - allWrong;
}

function powersOfTwoTo(largest: number): number[] {
  const ks: number[] = [];
  for (let k = 1; k < largest; k *= 2) ks.push(k);
  return [...ks, largest];
}

/** For each task of a batch with several: rewards, pass@k, turns and tokens of its valid rollouts. */
function taskMetrics(all: readonly Summary[], valid: readonly Summary[]): Metrics {
  const tasks = [...new Set(all.map(({ task_name }) => task_name))].sort();
  if (tasks.length < 2) return {};
  const metrics: Metrics = {};
  let bytes = 0;
  for (const task of tasks) {
    const own = metricsOfSome(valid.filter(({ task_name }) => task_name === task));
    const named = Object.entries(own).map(([name, value]) => [`task/${task}/${name}`, value]);
    bytes += utf8Length(JSON.stringify(named));
    if (bytes > MAX_TASK_BYTES) break;
    Object.assign(metrics, Object.fromEntries(named));
  }
  return metrics;
}

/** Over the valid rollouts of one task, or of one group. */
export function metricsOfSome(valid: readonly Summary[]): Metrics {
  if (valid.length === 0) return {};
  const rewards = valid.map(({ reward }) => reward);
  return {
    'total_reward/mean': mean(rewards),
    'total_reward/std': standardDeviation(rewards),
    ...passMetrics(rewardsByGroup(valid)),
    avg_turns_per_sample: mean(valid.map(({ turns }) => turns)),
    mean_total_tokens_per_sample: mean(valid.map(lengthOf)),
    mean_gen_tokens_per_sample: mean(valid.map(({ gen_tokens }) => gen_tokens)),
  };
}

function troubleMetrics(all: readonly Summary[]): Metrics {
  const attempts = all.map((rollout) => rollout.attempts).filter((count) => count > 0);
  const lost = all.map(({ lost_s }) => lost_s).filter((seconds) => seconds > 0);
  const types = new Set(all.flatMap((rollout) => Object.keys(rollout.faults)));
  return {
    ...Object.fromEntries(
      [...types].map((type) => [
        `faults/${type}`,
        sum(all.map((rollout) => rollout.faults[type] ?? 0)),
      ]),
    ),
    ...(attempts.length > 0 && {
      'attempts/mean': mean(attempts),
      'attempts/max': greatest(attempts),
    }),
    ...(lost.length > 0 && { lost_s: sum(lost), 'lost_s/max': greatest(lost) }),
  };
}

function stopMetrics(valid: readonly Summary[]): Metrics {
  return {
    ...Object.fromEntries(
      [...VALID_STOP_REASONS].map((reason) => [
        `stop_reason/${reason}`,
        valid.filter((rollout) => rollout.stop_reason === reason).length,
      ]),
    ),
    inherited_tokens: sum(valid.map((rollout) => rollout.inherited_tokens)),
    wasted_tokens: sum(valid.map((rollout) => rollout.wasted_tokens)),
  };
}

/** Seconds per rollout, and rates over the span from the first journal line to the last. */
function timeMetrics(valid: readonly Summary[]): Metrics {
  const started = least(valid.map((rollout) => rollout.started_at));
  // Start and end may come from machines with different clocks.
  const span = Math.max(0, greatest(valid.map((rollout) => rollout.ended_at)) - started);
  const perSecond = (count: number): number => (span > 0 ? count / span : 0);
  return {
    ...(['queue_s', 'generate_s', 'step_s', 'wall_s'] as const).reduce<Metrics>((metrics, name) => {
      const seconds = valid.map((rollout) => rollout[name]);
      return {
        ...metrics,
        [`${name}/mean`]: mean(seconds),
        ...percentiles(seconds, { name, of: [50, 90, 99] }),
        [`${name}/max`]: greatest(seconds),
      };
    }, {}),
    span_s: span,
    turns_per_s: perSecond(sum(valid.map((rollout) => rollout.turns))),
    gen_tokens_per_s: perSecond(sum(valid.map((rollout) => rollout.gen_tokens))),
  };
}

/** Which weights sampled the tokens of valid rollouts. Nothing if no token has a label. */
export function versionMetrics(all: readonly Summary[], expected: string | null): Metrics {
  const counts = all.filter(isValid).map(({ versions = {} }) => versions);
  const rows = counts.map((versions) => Object.keys(versions)).filter(({ length }) => length > 0);
  const labels = new Set(rows.flat());
  labels.delete(UNKNOWN);
  if (labels.size === 0) return {};
  const numbers = [...labels].map(versionOf).filter((version) => version !== null);
  const isOf = (row: readonly string[], label: string | undefined): boolean =>
    row.length === 1 && row[0] === label && label !== UNKNOWN;
  return {
    ...(numbers.length > 0 && {
      'versions/min': least(numbers),
      'versions/max': greatest(numbers),
    }),
    'versions/one_rate': rate(rows, (row) => isOf(row, row[0])),
    ...(expected !== null && {
      'versions/expected_rate': rate(rows, (row) => isOf(row, expected)),
    }),
    'versions/unknown': sum(counts.map((versions) => versions[UNKNOWN] ?? 0)),
  };
}
