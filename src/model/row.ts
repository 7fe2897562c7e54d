import { z } from 'zod';
import { agentColumns } from './agent/columns.js';
import type { RolloutRef, Semantics } from './batch-request.js';
import { rolloutId } from './workflow-safe/rollout-id.js';
import { restoreImages } from './content.js';
import type { Failure } from './journal.js';
import type { LogprobsMode } from './logprobs-mode.js';
import { modeOfAll } from './logprobs-mode.js';
import type { StopReason } from './workflow-safe/stop-reasons.js';
import type { Outcome } from './outcome.js';
import { isRow, isTruncated, overlongOf } from './outcome.js';
import type { Finish } from './journal.js';
import type { LogMessage, Sample } from './sample.js';
import { withoutSession } from './session.js';
import { reachedMaxTurns } from './turn/stop-rules.js';
import type { Segment, Trajectory } from './trajectory.js';
import { messageLog, sampledOf } from './message-log.js';

/** A run of generated tokens; offsets count the rollout's generated tokens from 0. */
type Run<T> = T & { start: number; end: number };

/** A line of rollouts.jsonl or failures.jsonl: the sample's columns, and these. */
export interface Row {
  schema_version: 1;
  rollout_id: string;
  batch_id: string;
  row: number;
  repeat: number;
  /** Of a replacement: the repeat of this row that failed. */
  replaces?: number;
  message_log: (LogMessage & { partial?: true })[];
  extra_env_info: Record<string, unknown>;
  /** How many ids of the log stand before the first generated one. */
  prompt_tokens: number;
  total_reward: number;
  /** Sums by component, where the environment names them. */
  rewards: Record<string, number>;
  /** Of each whole turn: what its environment gave for it, and how the engine ended it. */
  turn_rewards: number[];
  finish_reasons: Finish['finish_reason'][];
  stop_reason: StopReason;
  terminated: boolean;
  truncated: boolean;
  max_turns_reached: boolean;
  turn_count: number;
  total_tokens: number;
  assistant_tokens: number;
  env_tokens: number;
  policy_versions: Run<{ version: string | null }>[];
  /** Who says those versions, by the least certain of its tokens: the engine itself, the record of the policy, or nobody. */
  version_source: 'engine' | 'record' | 'none';
  segments: Run<{ turn: number; replica: string; request_id: string }>[];
  attempts: number;
  /** Turns that were cut and sampled again from their beginning: the settings let no turn go on, or its weights had changed. */
  restarted_turns: number[];
  /** Of all its logprobs; null where there are none, `unknown` also where replicas differ. */
  logprobs_mode: LogprobsMode | null;
  timing: Timing;
  /** The last one that an environment gave. */
  extracted_answer?: string;
  /** Of a rollout that an agent played: its last answer, parsed, without the tokens that `message_log` has. The journal has its text. */
  agent_result?: unknown;
  /** Of a rollout that an agent played: why `message_log` is empty. */
  untokenized?: string;
  failure?: Failure;
  [column: string]: unknown;
}

/**
 * Seconds. `wall_s` spans the rollout's start and its end, or what was played of it last; the others are sums over its whole turns. The run
 * of an agent is one step.
 */
export interface Timing {
  /** From a request to its first token: the engine's queue and prefill. */
  queue_s: number;
  generate_s: number;
  step_s: number;
  wall_s: number;
}

export interface RowInput {
  sample: Sample;
  ref: RolloutRef;
  semantics: Semantics;
  trajectory: Trajectory;
  outcome: Outcome;
}

export function toRow(input: RowInput): Row {
  const { sample, ref, trajectory, outcome } = input;
  const { turns, start } = trajectory;
  const { stop_reason, failure } = outcome;
  const last = turns.at(-1)?.observation;
  const answer = turns.findLast(({ observation }) => observation.answer !== undefined)?.observation
    .answer;
  return {
    ...sample,
    ...semanticColumns(input),
    ...(overlongOf(trajectory) === 'mask' && { loss_multiplier: 0 }),
    schema_version: 1,
    rollout_id: rolloutId(ref),
    ...ref,
    ...(trajectory.replaces !== null && { replaces: trajectory.replaces }),
    message_log:
      start === null
        ? unrendered(sample)
        : restoreImages(withPartial(trajectory, { valid: isRow(outcome) }), sample.message_log),
    extra_env_info: withoutSession(
      start === null ? (sample.extra_env_info ?? {}) : trajectory.extra_env_info,
    ),
    prompt_tokens: (start?.prompt ?? []).reduce((sum, { token_ids }) => sum + token_ids.length, 0),
    total_reward: trajectory.total_reward,
    rewards: trajectory.rewards,
    turn_rewards: turns.map(({ observation }) => observation.reward),
    finish_reasons: turns.map(({ generation }) => generation.finish_reason),
    stop_reason,
    terminated: last?.terminated ?? trajectory.agent.result !== null,
    truncated: isTruncated(trajectory),
    max_turns_reached: reachedMaxTurns(trajectory),
    turn_count: turns.length,
    total_tokens: trajectory.assistant_tokens + trajectory.env_tokens,
    assistant_tokens: trajectory.assistant_tokens,
    env_tokens: trajectory.env_tokens,
    policy_versions: policyVersions(trajectory),
    version_source: versionSource(trajectory),
    segments: segments(trajectory),
    attempts: trajectory.attempts,
    restarted_turns: trajectory.restarted_turns,
    logprobs_mode: logprobsMode(trajectory),
    timing: timingOf(trajectory),
    ...(answer !== undefined && { extracted_answer: answer }),
    ...agentColumns(trajectory),
    ...(failure !== null && { failure }),
  };
}

/**
 * Columns that upstream's loops return changed: sync its stop strings, async `idx` as the position. They add none;
 * ours fills in the defaults of a sample.
 */
function semanticColumns({ sample, ref, semantics, trajectory }: RowInput): object {
  switch (semantics) {
    case 'nemo-rl-sync':
      return trajectory.start?.stop_strings === undefined
        ? {}
        : { stop_strings: trajectory.stop_strings };
    case 'nemo-rl-async':
      return { idx: ref.row };
    case 'standard':
      return { idx: sample['idx'] ?? ref.row, loss_multiplier: sample.loss_multiplier ?? 1 };
  }
}

/** A rollout that never started has its prompt as the sample gave it. */
const unrendered = (sample: Sample): LogMessage[] =>
  sample.message_log.map((message) => ({ ...message, token_ids: message.token_ids ?? [] }));

/** Of a rollout that failed, the generation that no environment answered is worth reading too. */
function withPartial(trajectory: Trajectory, { valid }: { valid: boolean }): Row['message_log'] {
  const log: Row['message_log'] = messageLog(trajectory);
  const { open, start } = trajectory;
  if (valid || (open.line === null && open.token_ids.length === 0)) return log;
  const partial = {
    role: 'assistant',
    content: open.line?.content ?? open.text,
    ...(start === null ? { token_ids: open.token_ids } : sampledOf(open, start)),
    partial: true as const,
  };
  return [...log, partial];
}

function policyVersions({ turns }: Trajectory): Row['policy_versions'] {
  const runs: Row['policy_versions'] = [];
  for (const { start, end, segment } of numbered(turns)) {
    const last = runs.at(-1);
    if (last?.version === segment.policy_version) last.end = end;
    else runs.push({ start, end, version: segment.policy_version });
  }
  return runs;
}

function versionSource({ turns }: Trajectory): Row['version_source'] {
  const sources = turns.flatMap(({ segments: parts }) =>
    parts.map(({ version_source, policy_version }) => {
      if (policy_version === null) return 'none';
      return version_source === 'record' ? 'record' : 'engine';
    }),
  );
  if (sources.length === 0 || sources.includes('none')) return 'none';
  return sources.includes('record') ? 'record' : 'engine';
}

function logprobsMode({ turns, open, start }: Trajectory): LogprobsMode | null {
  if (start?.settings.generation.include_logprobs !== true) return null;
  const sampled = [...turns, open].flatMap(({ segments: parts }) => parts);
  return modeOfAll(sampled.map(({ logprobs_mode = 'unknown' }) => logprobs_mode));
}

function segments({ turns }: Trajectory): Row['segments'] {
  return [...numbered(turns)].map(({ turn, start, end, segment }) => ({
    turn,
    start,
    end,
    replica: segment.replica,
    request_id: segment.request_id,
  }));
}

function* numbered(
  turns: Trajectory['turns'],
): Generator<{ turn: number; start: number; end: number; segment: Segment }> {
  let before = 0;
  for (const [turn, { token_ids, segments: parts }] of turns.entries()) {
    for (const segment of parts) {
      yield { turn, start: before + segment.start, end: before + segment.end, segment };
    }
    before += token_ids.length;
  }
}

function timingOf({ turns, start, end, agent }: Trajectory): Timing {
  const ended = end ?? turns.at(-1)?.observation ?? agent.result;
  const sum = (seconds: (turn: Trajectory['turns'][number]) => number): number =>
    turns.reduce((total, turn) => total + seconds(turn), 0);
  return {
    queue_s: sum(({ generation }) => generation.queue_s),
    generate_s: sum(({ generation }) => generation.generate_s),
    step_s: sum(({ observation }) => observation.step_s) + (agent.result?.run_s ?? 0),
    wall_s: start !== null && ended !== null ? Math.max(0, ended.at - start.at) : 0,
  };
}

/** What the closing pass keeps of a rollout: about 300 bytes, enough for every metric. */
export const Summary = z.object({
  row: z.number(),
  repeat: z.number(),
  replaces: z.number().nullable().default(null),
  task_name: z.string(),
  stop_reason: z.string(),
  /** Its type; null: it is valid. */
  failure: z.string().nullable().default(null),
  reward: z.number(),
  rewards: z.record(z.string(), z.number()),
  terminated: z.boolean(),
  truncated: z.boolean(),
  max_turns_reached: z.boolean(),
  turns: z.number(),
  gen_tokens: z.number(),
  env_tokens: z.number(),
  max_gen_tokens: z.number(),
  queue_s: z.number(),
  generate_s: z.number(),
  step_s: z.number(),
  wall_s: z.number(),
  started_at: z.number(),
  ended_at: z.number(),
  attempts: z.number(),
  inherited_tokens: z.number(),
  wasted_tokens: z.number(),
  faults: z.record(z.string(), z.number()),
  /** Truncated, and masked or dropped for it. */
  overlong: z.boolean().default(false),
  /** Of a stream: how many tokens each version sampled, '' for those that nobody knows. */
  versions: z.record(z.string(), z.number()).optional(),
});
export type Summary = z.infer<typeof Summary>;

export function toSummary(row: Row, trajectory: Trajectory): Summary {
  const { start, faults, inherited_tokens, wasted_tokens } = trajectory;
  return {
    row: row.row,
    repeat: row.repeat,
    replaces: row.replaces ?? null,
    task_name: String(row['task_name']),
    stop_reason: row.stop_reason,
    failure: row.failure?.type ?? null,
    reward: row.total_reward,
    rewards: row.rewards,
    terminated: row.terminated,
    truncated: row.truncated,
    max_turns_reached: row.max_turns_reached,
    turns: row.turn_count,
    gen_tokens: row.assistant_tokens,
    env_tokens: row.env_tokens,
    max_gen_tokens: longestCall(trajectory),
    ...row.timing,
    started_at: start?.at ?? 0,
    ended_at: (start?.at ?? 0) + row.timing.wall_s,
    attempts: row.attempts,
    inherited_tokens,
    wasted_tokens,
    faults,
    overlong:
      (row.failure === undefined && overlongOf(trajectory) === 'mask') ||
      row.failure?.type === 'Overlong',
  };
}

function longestCall({ turns, agent }: Trajectory): number {
  const lengths = agent.result?.tokens?.calls ?? turns.map(({ token_ids }) => token_ids.length);
  return lengths.reduce((most, length) => Math.max(most, length), 0);
}
