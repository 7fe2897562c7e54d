import { z } from 'zod';
import { type ForeignObject, isForeignObject } from '../foreign-object.js';

/** What several kinds of lines consist of. */

/** Checked in one loop: every fold checks every token, and zod's arrays take several times as long. */
const numbers = (isOne: (value: unknown) => boolean, what: string) =>
  z.custom<number[]>((value) => Array.isArray(value) && value.every(isOne), `expected ${what}`);
export const tokenIds = numbers(Number.isSafeInteger, 'token ids');
export const logprobs = numbers(Number.isFinite, 'finite numbers');

/** Data of an environment or a sample, checked when it came. */
export const foreign = z.custom<ForeignObject>(isForeignObject, 'expected object');

/** Far above any meaningful reward, and small enough that no sum of them is infinite in float32. */
const LARGEST_REWARD = 1e30;
const tooLarge = `expected a number between -${LARGEST_REWARD} and ${LARGEST_REWARD}`;
export const Reward = z
  .number({ error: 'expected a finite number' })
  .min(-LARGEST_REWARD, tooLarge)
  .max(LARGEST_REWARD, tooLarge);

const written = {
  writer: z.string(),
  /** Seconds since the epoch, from the writer's monotonic clock. */
  at: z.number(),
  /** Of a fork: the rollout that it continues has played it. */
  inherited: z.literal(true).exactOptional(),
};
export const line = <const K extends string, T extends z.ZodRawShape>(kind: K, fields: T) =>
  z.object({ kind: z.literal(kind), ...written, ...fields });
