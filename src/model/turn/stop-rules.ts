import { Fault } from '../faults.js';
import { isUpstream, RULES, type Semantics } from '../semantics.js';
import type { StopReason } from '../workflow-safe/stop-reasons.js';
import { hasFinished } from '../journal/lives.js';
import { turnsOf } from '../journal/calls.js';
import { openAnswer } from '../journal/open-answers.js';
import { contextLength, isProgram, type Trajectory } from '../journal/trajectory.js';

/** What ends a rollout, by precedence (ARCHITECTURE.md, "How a rollout ends"). */

export type NextStep = 'generate' | 'step' | 'run' | { ended: StopReason };

/** What a started rollout does next. A generated turn is always answered by its environment. */
export function nextStep(trajectory: Trajectory): NextStep {
  const { settings_in_force: settings, observations } = trajectory;
  if (isProgram(trajectory)) return afterProgram(trajectory);
  const last = observations.at(-1);
  if (last?.terminated) return { ended: 'terminated' };
  if (last?.truncated) return { ended: 'truncated' };
  if (openAnswer(trajectory).generation !== null) return 'step';
  if (isBeyondLength(trajectory)) return { ended: 'truncated' };
  if (settings !== null && observations.length >= settings.max_rollout_turns)
    return { ended: 'max_turns' };
  return 'generate';
}

/** One life after another runs, until one ends without failing. Then its worth is asked. */
function afterProgram({ lives, observations: [verdict] }: Trajectory): NextStep {
  const life = lives.at(-1);
  if (life === undefined || !hasFinished(life)) return 'run';
  if (verdict === undefined) return 'step';
  if (life.refusal?.limit === 'calls') return { ended: 'max_turns' };
  const isCut = life.refusal !== null || (verdict.truncated && !verdict.terminated);
  return { ended: isCut ? 'truncated' : 'terminated' };
}

/**
 * Whether `max_seq_len` was lowered to no more than what was played. A log that grows to the limit is truncated by its
 * last step instead. Before the first turn only the prompt can be too long: that is a fault, or one turn without room.
 */
function isBeyondLength(trajectory: Trajectory): boolean {
  const { settings_in_force: settings, limits, observations } = trajectory;
  if (settings === null || observations.length === 0 || limits?.max_seq_len === undefined)
    return false;
  return contextLength(trajectory) >= settings.max_seq_len;
}

/** The valid end that a trajectory has reached by itself; null while it continues. */
export function naturalEnd(trajectory: Trajectory): StopReason | null {
  if (trajectory.start === null) return null;
  const next = nextStep(trajectory);
  return typeof next === 'object' ? next.ended : null;
}

/**
 * Tokens that the next generation may have. With 0 or less it is empty, with finish `length`, and no request is made.
 */
export function roomFor(trajectory: Trajectory): number {
  const { settings_in_force: settings } = trajectory;
  if (settings === null) return 0;
  const { generation, max_seq_len } = settings;
  return Math.min(generation.max_new_tokens, max_seq_len - contextLength(trajectory));
}

/** A prompt that leaves no room is a fault of the data; upstream's loops play one empty turn instead. */
export function checkPromptLength(
  promptTokens: number,
  {
    max_seq_len,
    max_prompt_tokens = null,
    semantics,
  }: { max_seq_len: number; max_prompt_tokens?: number | null; semantics: Semantics },
): void {
  if (max_prompt_tokens !== null && promptTokens > max_prompt_tokens)
    throw new Fault({
      type: 'PromptTooLong',
      message: `the prompt has ${promptTokens} tokens, expected at most max_prompt_tokens ${max_prompt_tokens}`,
    });
  if (isUpstream(semantics) || promptTokens < max_seq_len) return;
  throw new Fault({
    type: 'PromptTooLong',
    message: `the prompt has ${promptTokens} tokens, expected fewer than max_seq_len ${max_seq_len}`,
  });
}

/** The same before the first generation, because `max_seq_len` may have changed since the start. */
export function checkPromptStillFits(trajectory: Trajectory): void {
  const { settings_in_force: settings, observations } = trajectory;
  const open = openAnswer(trajectory);
  const isBegun = observations.length > 0 || open.token_ids.length > 0 || open.finish !== null;
  if (settings === null || isBegun) return;
  checkPromptLength(contextLength(trajectory), settings);
}

/** `max_seq_len` for the turn in progress. A limit below the existing tokens cuts none of them. */
export function lengthLimit(trajectory: Trajectory): number {
  const { settings_in_force: settings, limits } = trajectory;
  const limit = settings?.max_seq_len ?? 0;
  if (limits?.max_seq_len === undefined) return limit;
  return Math.max(limit, contextLength(trajectory) + openAnswer(trajectory).token_ids.length);
}

export interface ObservationLimit {
  semantics: Semantics;
  max_seq_len: number;
  /** Tokens of the log before this turn's generation. */
  input_tokens: number;
  generated_tokens: number;
  finish_reason: 'stop' | 'length';
}

/** Reaching `max_seq_len` exactly cuts nothing but truncates, as upstream. */
export function limitObservation(
  ids: number[],
  { semantics, max_seq_len, input_tokens, generated_tokens, finish_reason }: ObservationLimit,
): { token_ids: number[]; truncated: boolean } {
  const before = input_tokens + generated_tokens;
  const left = max_seq_len - before;
  if (before + ids.length < max_seq_len) {
    return {
      token_ids: ids,
      truncated: RULES[semantics].cut_truncates && finish_reason === 'length',
    };
  }
  if (left < 0 && RULES[semantics].in_lock_step) {
    // Upstream's own text.
    throw new Fault({
      type: 'PromptTooLong',
      message: `tokens_left_for_obs=${left} should not be negative. This should not happen if the inference engine respects the max sequence length.`,
    });
  }
  return { token_ids: ids.slice(0, Math.max(0, left)), truncated: true };
}

/** Upstream's flag, which its async loops also raise when the last allowed turn ended the rollout. */
export function reachedMaxTurns(trajectory: Trajectory): boolean {
  const { settings_in_force: settings, end } = trajectory;
  if (settings === null || end === null) return false;
  const { semantics, max_rollout_turns } = settings;
  if (!RULES[semantics].counts_places) return end.stop_reason === 'max_turns';
  return turnsOf(trajectory).length >= max_rollout_turns;
}
