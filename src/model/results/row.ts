import { agentColumns } from '../agent/columns.js';
import type { RolloutRef, Semantics } from '../batch-request.js';
import { rolloutId } from '../workflow-safe/rollout-id.js';
import { restoreImages } from '../content.js';
import type { LogprobsMode } from '../logprobs-mode.js';
import { modeOfAll } from '../logprobs-mode.js';
import type { Outcome } from '../journal/outcome.js';
import { isMasked, isRow, isTruncated } from '../journal/outcome.js';
import type { LogMessage, Sample } from '../sample.js';
import { withoutSession } from '../journal/session.js';
import { reachedMaxTurns } from '../turn/stop-rules.js';
import type { Segment } from '../journal/open-answers.js';
import { openAnswer } from '../journal/open-answers.js';
import type { Trajectory } from '../journal/trajectory.js';
import { messageLog, sampledOf } from '../journal/message-log.js';
import type { Row, Timing } from './row-columns.js';
import { trainMask } from './train-mask.js';

export type { Row };

export interface RowInput {
  sample: Sample;
  ref: RolloutRef;
  semantics: Semantics;
  trajectory: Trajectory;
  outcome: Outcome;
}

export function toRow(input: RowInput): Row {
  const columns = columnsOf(input);
  return { ...columns, train_mask: trainMask(columns) };
}

/** All but what is decided from them. */
function columnsOf(input: RowInput) {
  const { sample, ref, trajectory, outcome } = input;
  const { turns, start } = trajectory;
  const { stop_reason, failure } = outcome;
  const last = turns.at(-1)?.observation;
  const answer = turns.findLast(({ observation }) => observation.answer !== undefined)?.observation
    .answer;
  return {
    ...sample,
    ...semanticColumns(input),
    ...(isMasked(trajectory) && { loss_multiplier: 0 }),
    schema_version: 1 as const,
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
    policy_versions: policyVersions(trajectory.turns),
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
  const { start } = trajectory;
  const open = openAnswer(trajectory);
  if (valid || (open.line === null && open.token_ids.length === 0)) return log;
  const partial = {
    role: 'assistant',
    content: open.line?.content ?? open.text,
    ...(start === null ? { token_ids: open.token_ids } : sampledOf(open, start)),
    partial: true as const,
  };
  return [...log, partial];
}

/** Of answers that follow one another. */
export function policyVersions(turns: readonly Answered[]): Row['policy_versions'] {
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

function logprobsMode(trajectory: Trajectory): LogprobsMode | null {
  const { turns, start } = trajectory;
  if (start?.settings.generation.include_logprobs !== true) return null;
  const sampled = [...turns, openAnswer(trajectory)].flatMap(({ segments: parts }) => parts);
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

type Answered = Pick<Trajectory['turns'][number], 'token_ids' | 'segments'>;

function* numbered(
  turns: readonly Answered[],
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
