import { hash32 } from '../src/model/seeds.js';
import { createRandom } from '../src/simulator/random.js';

/** When a fault strikes: so many generations after the start, and a while later. Turns, since machines differ in speed. */
export interface Moment {
  after_turns: number;
  delay_ms: number;
}

export interface ScheduleOptions {
  seed: number;
  fault: string;
  hits: number;
  /** Of all rollouts together. */
  turns: number;
  /** How long one turn takes. */
  turn_ms: number;
}

/** Between these shares of all turns: something runs, and something is left to play. */
const FIRST = 0.1;
const LAST = 0.7;

/** Each fault has a stream of its own: played alone it strikes at the same moments. In the order of time. */
export function scheduleOf({ seed, fault, hits, turns, turn_ms }: ScheduleOptions): Moment[] {
  const random = createRandom(hash32([seed, ...Buffer.from(fault)]));
  return Array.from({ length: hits }, (_, i) => ({
    after_turns: Math.max(
      1,
      Math.floor(turns * (FIRST + ((LAST - FIRST) * (i + random())) / hits)),
    ),
    delay_ms: Math.floor(random() * turn_ms),
  }));
}
