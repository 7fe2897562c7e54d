import { z } from 'zod';
import { agentColumns } from '../agent/columns.js';
import type { RolloutRef, Semantics } from '../batch-request.js';
import { rolloutId } from '../workflow-safe/rollout-id.js';
import { Content, restoreImages } from '../content.js';
import { Failure, Finish } from '../journal.js';
import type { LogprobsMode } from '../logprobs-mode.js';
import { LOGPROBS_MODES, modeOfAll } from '../logprobs-mode.js';
import { foreignObject } from '../foreign-object.js';
import { STOP_REASONS } from '../workflow-safe/stop-reasons.js';
import type { Outcome } from '../journal/outcome.js';
import { isRow, isTruncated, overlongOf } from '../journal/outcome.js';
import { type LogMessage, LossMultiplier, type Sample } from '../sample.js';
import { withoutSession } from '../journal/session.js';
import { TokenId } from '../token-id.js';
import { reachedMaxTurns } from '../turn/stop-rules.js';
import type { Segment, Trajectory } from '../journal/trajectory.js';
import { messageLog, sampledOf } from '../journal/message-log.js';

/** Offsets count the rollout's generated tokens from 0. */
const Run = z.object({ start: z.int(), end: z.int() });

const RowMessage = z.strictObject({
  role: z.string(),
  content: Content,
  token_ids: z.array(TokenId),
  generation_logprobs: z.array(z.number()).optional(),
  generation_top_logprobs: z.array(z.array(z.tuple([TokenId, z.number()]))).exactOptional(),
  /** The policy sampled it, and no logprobs show that. */
  sampled: z.literal(true).exactOptional(),
  /** In failures.jsonl, on the last message: no environment has answered it. */
  partial: z.literal(true).exactOptional(),
  /** From an agent's model server. */
  is_invalid_tool_call: z.boolean().exactOptional(),
  has_malformed_thinking: z.boolean().exactOptional(),
  routed_experts: z.array(z.unknown()).exactOptional(),
});

/**
 * Seconds. `wall_s` spans the rollout's start and its end, or the last thing played. The others are sums over its whole
 * turns. An agent's run is one step.
 */
const Timing = z.object({
  /** From a request to its first token: the engine's queue and prefill. */
  queue_s: z.number(),
  generate_s: z.number(),
  step_s: z.number(),
  wall_s: z.number(),
});
export type Timing = z.infer<typeof Timing>;

/** A line of rollouts.jsonl or failures.jsonl: the sample's columns, and these. */
export const Row = z.looseObject({
  task_name: z.string(),
  loss_multiplier: LossMultiplier.optional(),
  schema_version: z.literal(1),
  rollout_id: z.string(),
  batch_id: z.string(),
  row: z.int(),
  repeat: z.int(),
  /** For a replacement: the repeat of this row that failed. */
  replaces: z.int().exactOptional(),
  message_log: z.array(RowMessage),
  extra_env_info: foreignObject(),
  /** How many ids of the log come before the first generated one. */
  prompt_tokens: z.int(),
  total_reward: z.number(),
  /** Sums by component, if the environment names components. */
  rewards: z.record(z.string(), z.number()),
  /** For each whole turn: its reward, and how the engine ended it. */
  turn_rewards: z.array(z.number()),
  finish_reasons: z.array(Finish.shape.finish_reason),
  stop_reason: z.enum(STOP_REASONS),
  terminated: z.boolean(),
  truncated: z.boolean(),
  max_turns_reached: z.boolean(),
  turn_count: z.int(),
  total_tokens: z.int(),
  assistant_tokens: z.int(),
  env_tokens: z.int(),
  policy_versions: z.array(Run.extend({ version: z.string().nullable() })),
  /** The source of those versions, by the least certain token: the engine itself, the policy's record, or none. */
  version_source: z.enum(['engine', 'record', 'none']),
  segments: z.array(Run.extend({ turn: z.int(), replica: z.string(), request_id: z.string() })),
  attempts: z.int(),
  /**
   * Turns that were cut and sampled again from their beginning, because the settings allow no continuation or the
   * weights changed.
   */
  restarted_turns: z.array(z.int()),
  /** For all its logprobs; null: it has none. `unknown` also if replicas differ. */
  logprobs_mode: z.enum(LOGPROBS_MODES).nullable(),
  timing: Timing,
  /** The last answer that an environment extracted. */
  extracted_answer: z.string().exactOptional(),
  /**
   * For an agent's rollout: its last answer, parsed, without the tokens that `message_log` has. The journal has its
   * text.
   */
  agent_result: z.unknown().exactOptional(),
  /** For an agent's rollout: why `message_log` is empty. */
  untokenized: z.string().exactOptional(),
  failure: Failure.exactOptional(),
  /** For a stream: which sample its group plays, in which epoch, and the step that delivers it. */
  sample_row: z.int().exactOptional(),
  epoch: z.int().exactOptional(),
  step: z.int().exactOptional(),
  /** For a stream that masks: runs of tokens that are too old to train on. */
  masked: z.array(Run).exactOptional(),
});
export type Row = z.infer<typeof Row>;

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
 * Columns that upstream's loops return changed: sync its stop strings, async `idx` as the position. The loops add none;
 * this project fills in the defaults of a sample.
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

/** A rollout that never started has the sample's prompt. */
const unrendered = (sample: Sample): LogMessage[] =>
  sample.message_log.map((message) => ({ ...message, token_ids: message.token_ids ?? [] }));

/** A failed rollout's row also has the generation that no environment answered. */
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
