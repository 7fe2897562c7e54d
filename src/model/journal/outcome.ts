import type { Glance } from './glance.js';
import type { Failure, LineOf, RolloutSettings } from '../journal.js';
import { openAnswers, type Sampled } from './open-answers.js';
import { pathsOf, rulesOf } from '../results/call-paths.js';
import { answered } from './calls.js';
import { hasFinished } from './lives.js';
import type { Trajectory } from './trajectory.js';
import { isProgram, totalsOf } from './trajectory.js';
import { naturalEnd } from '../turn/stop-rules.js';
import { OVERLONG } from '../workflow-safe/failures.js';
import type { StopReason } from '../workflow-safe/stop-reasons.js';
import { VALID_STOP_REASONS } from '../workflow-safe/stop-reasons.js';

/** How a rollout ends, or counts when its batch is closed. `failure` belongs to an end that is not valid. */
export interface Outcome {
  stop_reason: StopReason;
  failure: Failure | null;
}

/** The ending of a rollout whose journal has no standing `end` and whose turns have reached none. */
export interface ClosingReason {
  stop_reason: 'stopped' | 'cancelled';
}

const FAILURE_TYPES = { timeout: 'TimedOut', stopped: 'Stopped', cancelled: 'Cancelled' } as const;

const MESSAGES = {
  TimedOut: 'rollout_timeout passed',
  Stopped: 'the batch was stopped',
  Cancelled: 'the rollout was cancelled, terminated or never started',
  Failed: 'the rollout failed',
};

/** Turns that have reached a valid end count, even if the store was away when `end` was to be written. */
export function outcomeOf(trajectory: Trajectory, otherwise: ClosingReason): Outcome {
  const { end } = trajectory;
  const stop_reason = end?.stop_reason ?? naturalEnd(trajectory) ?? otherwise.stop_reason;
  if (VALID_STOP_REASONS.has(stop_reason)) {
    return overlongOf(trajectory) === 'drop' ? dropped(trajectory) : { stop_reason, failure: null };
  }
  if (end?.failure) return { stop_reason, failure: end.failure };
  const type =
    stop_reason in FAILURE_TYPES
      ? FAILURE_TYPES[stop_reason as keyof typeof FAILURE_TYPES]
      : 'Failed';
  return { stop_reason, failure: failureOf(trajectory, { type, message: MESSAGES[type] }) };
}

/** By the journal's `end`, or by turns that have reached one. */
export const hasEnded = (trajectory: Trajectory): boolean =>
  trajectory.end !== null || naturalEnd(trajectory) !== null;

/** The rule that applies to a truncated rollout; null: it is not truncated. */
export function overlongOf(trajectory: Trajectory): RolloutSettings['overlong'] | null {
  if (!isTruncated(trajectory)) return null;
  return trajectory.settings_in_force?.overlong ?? null;
}

/** Its row has `loss_multiplier` 0: it is truncated, or its agent asks for that. */
export const isMasked = (trajectory: Trajectory): boolean => whyMasked(trajectory) !== null;

function whyMasked(trajectory: Trajectory): string | null {
  if (overlongOf(trajectory) === 'mask') return 'it is truncated, and overlong is mask';
  const field = resultOf(trajectory)?.untrained;
  return field === undefined ? null : `its agent says so: ${field}`;
}

/** Why no token of its row trains, in words; null: what is sampled may. */
export function whyUntrained(trajectory: Trajectory, { failure }: Outcome): string | null {
  if (failure !== null) return failure.type;
  if (trajectory.start?.untrained === true) return 'its sample has loss_multiplier 0';
  return whyMasked(trajectory);
}

/** What the agent of NeMo Gym that played it has answered; null: none, or it is no result. */
export function resultOf({ lives }: Pick<Trajectory, 'lives'>): LineOf<'result'> | null {
  const life = lives.at(-1);
  return life !== undefined && hasFinished(life) ? life.result : null;
}

/**
 * Whether a trainer takes nothing from its row, whatever its reward: `loss_multiplier` is 0, or no token was sampled.
 * It is not known of an agent whose own model answered.
 */
export function isUntrained(trajectory: Trajectory): boolean {
  const { start, calls, assistant_tokens } = trajectory;
  if (start?.untrained === true || isMasked(trajectory)) return true;
  if (!isProgram(trajectory)) return assistant_tokens === 0;
  if (calls.length === 0 && resultOf(trajectory) !== null) return false;
  return !trainsOf(trajectory);
}

function trainsOf(trajectory: Trajectory): boolean {
  const { status, tokens } = pathsOf(trajectory, rulesOf(trajectory));
  return tokens.some((count, call) => count > 0 && status[call] === null);
}

/** Truncated by a limit, whatever else ended it: an environment may have graded a truncated turn. */
export function isTruncated(trajectory: Trajectory): boolean {
  const { end, observations } = trajectory;
  const stop_reason = end?.stop_reason ?? naturalEnd(trajectory);
  if (observations.at(-1)?.truncated === true) return true;
  return stop_reason === 'truncated' || isCutShort(trajectory);
}

/** An agent's conversation ends in the middle of an answer. */
function isCutShort(trajectory: Trajectory): boolean {
  if (!isProgram(trajectory)) return false;
  const { main } = pathsOf(trajectory, rulesOf(trajectory));
  const last = main === null ? undefined : trajectory.calls[main];
  return last?.answer != null && last.sampled.generation?.finish_reason === 'length';
}

const dropped = (trajectory: Trajectory): Outcome => ({
  stop_reason: 'failed',
  failure: failureOf(trajectory, OVERLONG),
});

export const isRow = ({ failure }: Outcome): boolean => failure === null;

/** A valid rollout beyond its group's k: groups of a batch have the same size. */
export const surplusOf = (trajectory: Trajectory, k: number): Outcome => ({
  stop_reason: 'stopped',
  failure: failureOf(trajectory, {
    type: 'Surplus',
    message: `it is valid, but its group already has ${k} rows, of earlier repeats`,
  }),
});

const failureOf = (trajectory: Trajectory, why: Omit<Failure, 'turn'>): Failure => ({
  ...why,
  turn: totalsOf(trajectory).turn_count,
});

/** What a list shows of a rollout, from its whole journal. */
export function glanceOf(trajectory: Trajectory): Glance {
  const { calls, assistant_tokens } = trajectory;
  const begun = openAnswers(trajectory).filter(isBegun);
  return {
    task_name: trajectory.start?.task_name ?? null,
    total_reward: trajectory.total_reward,
    turn_count: answered(calls) + begun.length,
    assistant_tokens: begun.reduce(
      (sum, { token_ids }) => sum + token_ids.length,
      assistant_tokens,
    ),
    started_at: trajectory.start?.at ?? null,
    attempts: trajectory.attempts,
    faults: Object.values(trajectory.faults).reduce((sum, count) => sum + count, 0),
  };
}

const isBegun = ({ generation, token_ids }: Sampled): boolean =>
  generation !== null || token_ids.length > 0;
