import { createRandom } from '../../../simulator/random.js';
import { hash32 } from '../../../src/model/workflow-safe/hash32.js';
import type { Operation } from './operations.js';
import { OPERATIONS } from './operations.js';

/** When an operation strikes: this long after its subject is seen to play. */
export interface Moment {
  operation: Operation;
  after_ms: number;
  chance: number;
}

const LATEST_MS = 2000;

/** Every operation once, in an order and at moments that the seed decides. Batch and stream have a day each. */
export function dayOf(seed: number, subject: string): Moment[] {
  const random = createRandom(hash32([seed, ...Buffer.from(subject)]));
  return OPERATIONS.map((operation) => ({ operation, place: random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ operation }) => ({
      operation,
      after_ms: Math.floor(random() * LATEST_MS),
      chance: random(),
    }));
}
