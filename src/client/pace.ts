import type { BatchProgress } from '../activities/contract.js';

/** How fast a batch moves while it is watched. null: too little has moved to say. */
export interface Pace {
  done_per_s: number | null;
  turns_per_s: number | null;
  tokens_per_s: number | null;
}

export const NO_PACE: Pace = { done_per_s: null, turns_per_s: null, tokens_per_s: null };

export const NO_MOVES = {
  /** The last answer, and when it came. */
  last: null as { progress: BatchProgress; at_s: number } | null,
  /** Rollouts that have ended, and the time in which they did. */
  done: 0,
  moving_s: 0,
  /** The same for turns and tokens, up to their last change: they come in steps, because looks have pauses. */
  turns: 0,
  tokens: 0,
  counted_s: 0,
  /** Time since that change; null: none has been seen, so nobody knows over how long the next one was. */
  since_s: null as number | null,
};
type Moves = typeof NO_MOVES;

const MOST_GAP_S = 10;
/** By then a continued batch has counted what an earlier run played: its first look is at 5 s. */
const COUNTED_AGAIN_S = 10;

/** Adds an answer. Time in which the batch waits for something, and what moves then, does not count. */
export function moved(
  before: Moves,
  { progress, at_s }: { progress: BatchProgress; at_s: number },
): Moves {
  const { last } = before;
  const next = { ...before, last: { progress, at_s } };
  if (!isMoving(progress)) return { ...next, since_s: null };
  // A batch that has just begun has played nothing before.
  const isFresh = progress.tokens === 0 && progress.continued !== true;
  if (last === null || !isMoving(last.progress) || at_s - last.at_s > MOST_GAP_S)
    return { ...next, since_s: isFresh ? 0 : null };
  const gap_s = at_s - last.at_s;
  next.done += progress.done - last.progress.done;
  next.moving_s += gap_s;
  const since_s = before.since_s === null ? null : before.since_s + gap_s;
  if (progress.tokens === last.progress.tokens) return { ...next, since_s };
  if (since_s === null) return { ...next, since_s: 0 };
  next.turns += progress.turns - last.progress.turns;
  next.tokens += progress.tokens - last.progress.tokens;
  next.counted_s += since_s;
  return { ...next, since_s: 0 };
}

const isMoving = ({ phase, waiting, continued, elapsed_s }: BatchProgress): boolean =>
  phase === 'running' && waiting === null && (continued !== true || elapsed_s >= COUNTED_AGAIN_S);

export function paceOf({ last, done, moving_s, turns, tokens, counted_s }: Moves): Pace {
  const few = Math.min(5, (last?.progress.requested ?? 0) / 10);
  const isKnown = counted_s > 0;
  return {
    done_per_s: done > 0 && done >= few && moving_s > 0 ? done / moving_s : null,
    turns_per_s: isKnown ? turns / counted_s : null,
    tokens_per_s: isKnown ? tokens / counted_s : null,
  };
}
