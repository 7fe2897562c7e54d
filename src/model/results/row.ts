import type { RolloutRef } from '../batch-request.js';
import { rolloutId } from '../workflow-safe/rollout-id.js';
import { restoreImages } from '../content.js';
import type { LogprobsMode } from '../logprobs-mode.js';
import { modeOfAll } from '../logprobs-mode.js';
import type { Outcome } from '../journal/outcome.js';
import { isMasked, isRow, isTruncated, resultOf } from '../journal/outcome.js';
import type { Sample } from '../sample.js';
import { withoutSession } from '../journal/session.js';
import { isUpstream, RULES, type Semantics } from '../semantics.js';
import { reachedMaxTurns } from '../turn/stop-rules.js';
import { openAnswer } from '../journal/open-answers.js';
import { answered, turnsOf, wholeAnswers } from '../journal/calls.js';
import { isProgram, type Trajectory } from '../journal/trajectory.js';
import { messageLog, sampledOf } from '../journal/message-log.js';
import type { Row } from './row-columns.js';
import type { LogMessage, Timing } from './row-parts.js';
import { prefixRuns } from './runs.js';
import { factsOf, sequencesOf, type Sequences } from './sequences.js';
import { sum } from './statistics.js';
import { withMasks } from './train-mask.js';
import { keptJson } from '../../platform/json/kept.js';
import { lastResult, type Life } from '../journal/lives.js';

export type { Row };

export interface RowInput {
  sample: Sample;
  ref: RolloutRef;
  semantics: Semantics;
  trajectory: Trajectory;
  outcome: Outcome;
}

export function toRow(input: RowInput): Row {
  const { trajectory, outcome } = input;
  const isAgent = isProgram(trajectory);
  const made = isAgent ? sequencesOf(trajectory) : null;
  const main = made?.sequences[0] ?? loopOf(input);
  const columns = {
    ...columnsOf(input, main),
    ...(isAgent && callColumns(trajectory, made)),
  };
  const { failure } = outcome;
  return withMasks(
    { ...columns, ...(failure !== null && { failure }) },
    {
      trains: isAgent ? made?.sequences[0].train === true : true,
      masks: trajectory.start?.fork?.train_prefix === false ? prefixRuns : null,
    },
  );
}

/** The sequence of ids that a row itself is. */
interface Main extends Pick<
  Row,
  'message_log' | 'assistant_tokens' | 'finish_reasons' | 'policy_versions' | 'segments'
> {
  calls: readonly number[];
  /** Absent: what it has beside its prompt and its answers. */
  env_tokens?: number;
}

/** Whole turns, and what is there of a failed one. An agent that asked for nothing may have said what it cost. */
function loopOf({ sample, trajectory, outcome }: RowInput): Main {
  const { start, assistant_tokens, env_tokens } = trajectory;
  const calls = [...turnsOf(trajectory).keys()];
  return {
    ...factsOf(trajectory, calls),
    ...{ calls, assistant_tokens, env_tokens },
    message_log:
      start === null || isProgram(trajectory)
        ? unrendered(sample)
        : restoreImages(withPartial(trajectory, { valid: isRow(outcome) }), sample.message_log),
  };
}

/** Without what is decided from them. */
function columnsOf(input: RowInput, main: Main) {
  const { sample, ref, semantics, trajectory, outcome } = input;
  const { start, calls, observations } = trajectory;
  const { stop_reason } = outcome;
  const { message_log, assistant_tokens, finish_reasons, policy_versions, segments } = main;
  const prompt_tokens = start === null ? 0 : (calls[main.calls[0] ?? 0]?.prompt_length ?? 0);
  const ids = message_log.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  const { env_tokens = ids - prompt_tokens - assistant_tokens } = main;
  const answer = observations.findLast((one) => one.answer !== undefined)?.answer;
  return {
    ...sample,
    ...semanticColumns(input),
    ...(isMasked(trajectory) && { loss_multiplier: 0 }),
    schema_version: 1 as const,
    rollout_id: rolloutId(ref),
    ...ref,
    ...(trajectory.replaces !== null && { replaces: trajectory.replaces }),
    ...(isUpstream(semantics) && { semantics }),
    message_log,
    extra_env_info: withoutSession(
      start === null ? (sample.extra_env_info ?? {}) : trajectory.extra_env_info,
    ),
    prompt_tokens,
    total_reward: trajectory.total_reward,
    rewards: trajectory.rewards,
    turn_rewards: turnsOf(trajectory).map(({ observation }) => observation.reward),
    finish_reasons,
    stop_reason,
    terminated: isProgram(trajectory)
      ? stop_reason === 'terminated'
      : (observations.at(-1)?.terminated ?? false),
    truncated: isTruncated(trajectory),
    max_turns_reached: reachedMaxTurns(trajectory),
    turn_count: answered(main.calls.flatMap((call) => calls[call] ?? [])),
    total_tokens: assistant_tokens + env_tokens,
    assistant_tokens,
    env_tokens,
    policy_versions,
    version_source: versionSource(trajectory),
    segments,
    attempts: trajectory.attempts,
    restarted_turns: trajectory.restarted_turns,
    logprobs_mode: logprobsMode(trajectory),
    timing: timingOf(trajectory),
    ...(answer !== undefined && { extracted_answer: answer }),
    ...(start?.fork && { forked_from: start.fork.rollout_id, forked_at: start.fork.at }),
  };
}

/** Columns that upstream's loops return changed. The loops add none; this project fills in the defaults of a sample. */
function semanticColumns({ sample, ref, semantics, trajectory }: RowInput): object {
  const { counts_places, in_lock_step } = RULES[semantics];
  if (!isUpstream(semantics))
    return { idx: sample['idx'] ?? ref.row, loss_multiplier: sample.loss_multiplier ?? 1 };
  return {
    ...(counts_places && { idx: ref.row }),
    ...(in_lock_step &&
      trajectory.start?.stop_strings !== undefined && { stop_strings: trajectory.stop_strings }),
  };
}

/** A rollout that never started has the sample's prompt. */
const unrendered = (sample: Sample): LogMessage[] =>
  sample.message_log.map((message) => ({ ...message, token_ids: message.token_ids ?? [] }));

/** A failed rollout's row also has the generation that no environment answered. */
function withPartial(trajectory: Trajectory, { valid }: { valid: boolean }): Row['message_log'] {
  const log: Row['message_log'] = messageLog(trajectory);
  const { start } = trajectory;
  const open = openAnswer(trajectory);
  if (valid || (open.generation === null && open.token_ids.length === 0)) return log;
  const partial = {
    role: 'assistant',
    content: open.generation?.content ?? open.text,
    ...(start === null ? { token_ids: open.token_ids } : sampledOf(open, start)),
    partial: true as const,
  };
  return [...log, partial];
}

function versionSource(trajectory: Trajectory): Row['version_source'] {
  const sources = wholeAnswers(trajectory.calls).flatMap(({ segments: parts }) =>
    parts.map(({ version_source, policy_version }) => {
      if (policy_version === null) return 'none';
      return version_source === 'record' ? 'record' : 'engine';
    }),
  );
  if (sources.length === 0 || sources.includes('none')) return 'none';
  return sources.includes('record') ? 'record' : 'engine';
}

function logprobsMode(trajectory: Trajectory): LogprobsMode | null {
  const { start, calls } = trajectory;
  if (start?.settings.generation.include_logprobs !== true) return null;
  const sampled = calls.flatMap((call) => call.sampled.segments);
  return modeOfAll(sampled.map(({ logprobs_mode = 'unknown' }) => logprobs_mode));
}

function timingOf(trajectory: Trajectory): Timing {
  const { calls, start, end, observations } = trajectory;
  const ended = end ?? observations.at(-1) ?? lastOf(trajectory);
  const generations = wholeAnswers(calls).map(({ generation }) => generation);
  return {
    queue_s: sum(generations.map(({ queue_s }) => queue_s)),
    generate_s: sum(generations.map(({ generate_s }) => generate_s)),
    step_s: sum(observations.map(({ step_s }) => step_s)) + (resultOf(trajectory)?.run_s ?? 0),
    wall_s: start !== null && ended !== null ? Math.max(0, ended.at - start.at) : 0,
  };
}

function lastOf(trajectory: Trajectory): { at: number } | null {
  if (!isProgram(trajectory)) return null;
  const { calls, lives } = trajectory;
  const done = [
    ...calls.map(({ line, answer }) => answer ?? line),
    ...lives.map(({ line, exit }) => exit ?? line),
  ];
  return done.toSorted((one, other) => one.at - other.at).at(-1) ?? null;
}

const UNTOKENIZED =
  'expected calls of the agent that this policy answered, got none: its own model server answered them (model_server: own), or it asked no model';

/** Columns of agents alone (`row-columns.ts` explains them). `made`: null if it has no calls. */
function callColumns({ calls, lives }: Trajectory, made: Sequences | null) {
  const structured = calls.filter(({ line }) => line.asked.structured !== undefined).length;
  const nothing = { sampled: 0, trained: 0, sequences: 0 };
  return {
    calls: calls.length,
    lives: lives.length,
    malformed_calls: calls.reduce((sum, { answer }) => sum + (answer?.malformed ?? 0), 0),
    ...(structured > 0 && { structured_calls: structured }),
    resampled: calls.filter(({ line }) => line.cause === 'resampled').length,
    ...endOf(lives.at(-1)),
    unanswered: (made?.paths.read ?? []).filter((isRead) => !isRead).length,
    ...(made === null ? { sequences: [], all_tokens: nothing } : sequencesIn(made)),
    ...resultColumns({ calls, lives }),
  };
}

const sequencesIn = ({ all_tokens, sequences: [main, ...others] }: Sequences) => ({
  all_tokens,
  sequences: others.map((one) => ({ ...one, train_mask: [] })),
  ...(main.over_span === true && { over_span: main.over_span }),
});

function endOf(life: Life | undefined) {
  if (!life?.exit) return {};
  const { code, signal, tail, submission, said } = life.exit;
  return { program_end: { code, signal, tail, submission, metadata: said?.metadata ?? null } };
}

function resultColumns({ calls, lives }: Pick<Trajectory, 'calls' | 'lives'>) {
  const result = lastResult({ lives });
  if (result === null) return {};
  return {
    agent_result: keptJson(result.text),
    ...(calls.length === 0 && result.reward !== null && { untokenized: UNTOKENIZED }),
    ...(result.shaping !== undefined && { reward_shaping: result.shaping }),
  };
}
