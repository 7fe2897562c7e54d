import { hash32 } from '../../src/model/workflow-safe/hash32.js';
import { createRandom } from '../../simulator/random.js';

/**
 * When a fault strikes: a number of generations after the start, plus a delay. It counts turns, since machines differ
 * in speed.
 */
export interface Moment {
  after_turns: number;
  delay_ms: number;
}

export interface ScheduleOptions {
  seed: number;
  fault: string;
  hits: number;
  rollouts: number;
  /** Turns of each rollout; at least 3. */
  turns: number;
  /** How long one turn takes. */
  turn_ms: number;
}

/** As a share of all turns. Something runs by then. */
const FIRST = 0.1;
/** At the latest in the last turn but one, and not at its end, since some faults hit the next request. */
const TURNS_LEFT = 2;
const LATEST_IN_TURN = 0.8;

/**
 * Each fault has its own random stream, so it strikes at the same moments when it is played alone. In order of time.
 */
export function scheduleOf({
  seed,
  fault,
  hits,
  rollouts,
  turns,
  turn_ms,
}: ScheduleOptions): Moment[] {
  const random = createRandom(hash32([seed, ...Buffer.from(fault)]));
  const last = (turns - TURNS_LEFT) / turns;
  return Array.from({ length: hits }, (_, i) => ({
    after_turns: Math.max(
      1,
      Math.floor(rollouts * turns * (FIRST + ((last - FIRST) * (i + random())) / hits)),
    ),
    delay_ms: Math.floor(random() * LATEST_IN_TURN * turn_ms),
  }));
}
