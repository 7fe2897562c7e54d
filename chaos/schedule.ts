import { hash32 } from '../src/model/workflow-safe/hash32.js';
import { createRandom } from '../src/dev/simulator/random.js';

/** When a fault strikes: so many generations after the start, and a while later. Turns, since machines differ in speed. */
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

/** Share of all turns; by then something runs. */
const FIRST = 0.1;
/** At the latest in the last turn but one, and not at its end: some faults strike the next request. */
const TURNS_LEFT = 2;
const LATEST_IN_TURN = 0.8;

/** Each fault has a stream of its own: played alone it strikes at the same moments. In the order of time. */
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
