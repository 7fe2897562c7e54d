import { z } from 'zod';
import { Duration } from '../durations.js';
import { FiniteNumbers, TokenIds } from '../untrusted.js';
import { Holder } from './holder.js';

/** Update `publish` of workflow `policy`: weights for all replicas of a service, under a version that only grows. */

/** The record contains path and probe, and is written anew with each change of a replica. */
export const MAX_PATH = 4096;
const MAX_PROBE = 16_384;

const path = z
  .string()
  .min(1)
  .max(MAX_PATH)
  .describe('each engine reads it from its own file system');

export const Weights = z.discriminatedUnion('kind', [
  /** Each engine reads it from its own file system. */
  z.strictObject({
    kind: z.literal('checkpoint').describe('files'),
    path,
  }),
  /** Loaded beside the weights, under a name of its own; nothing is paused. */
  z.strictObject({
    kind: z.literal('lora').describe('an adapter for the weights that are there'),
    path,
  }),
]);
export type Weights = z.infer<typeof Weights>;

/** The trainer's own logprobs of a prompt. A replica with other logprobs has other weights. */
export const Probe = z
  .strictObject({
    prompt_ids: TokenIds.describe('the ids of the prompt'),
    logprobs: FiniteNumbers.describe('one for each id except the first'),
    tolerance: z.number().positive().default(0.01).describe('largest difference of one logprob'),
  })
  .superRefine(({ prompt_ids, logprobs }, context) => {
    const expected = prompt_ids.length - 1;
    if (expected < 1) {
      const message = `expected at least 2 ids, got ${prompt_ids.length}`;
      context.addIssue({ code: 'custom', path: ['prompt_ids'], message });
    } else if (prompt_ids.length > MAX_PROBE) {
      const message = `expected at most ${MAX_PROBE} ids, got ${prompt_ids.length}`;
      context.addIssue({ code: 'custom', path: ['prompt_ids'], message });
    } else if (logprobs.length !== expected) {
      const message = `expected ${expected} logprobs, one for each id but the first, got ${logprobs.length}`;
      context.addIssue({ code: 'custom', path: ['logprobs'], message });
    }
  });

/** What happens to running streams: frozen, cut, or drained until `drain_limit` and then cut. */
export const PauseMode = z.enum(['keep', 'abort', 'wait']);
export type PauseMode = z.infer<typeof PauseMode>;

/** The prefix cache is emptied, or kept; then `cache_salt` separates versions. */
export const CacheRule = z.enum(['reset', 'keep']);
export type CacheRule = z.infer<typeof CacheRule>;

/** How weights are brought to a replica, including one that returns later. */
const manner = {
  weights: Weights.describe('the new weights'),
  cache: CacheRule.default('reset').describe(
    'the prefix cache: emptied (`reset`), or kept; then `cache_salt` separates versions',
  ),
  probe: Probe.nullable()
    .default(null)
    .describe(
      "the trainer's own logprobs of a prompt. A replica with other ones has other weights, and does not serve",
    ),
  pause_limit: Duration.default('10m').describe(
    'how long a pause may take; then streams are cut and the engine is resumed',
  ),
};

/**
 * A version that no engine could load uses up its number, so there have to be higher ones. Steps, and times in
 * milliseconds or as digits of a date, are below.
 */
export const MAX_VERSION = 10 ** 15;

export const Manner = z.object(manner);

export const TakeOver = z
  .boolean()
  .default(false)
  .describe('takes the service from another trainer that holds it');

export const Publish = z.strictObject({
  version: z
    .int()
    .nonnegative()
    .max(MAX_VERSION)
    .describe(
      'above all earlier ones; the same again, with the same weights, completes what is missing',
    ),
  ...manner,
  holder: Holder.nullable()
    .default(null)
    .describe('who brings the weights; null is refused while somebody holds the service'),
  take_over: TakeOver,
  mode: PauseMode.default('keep').describe(
    'streams: `keep` freezes them, `abort` cuts them, `wait` drains them for `drain_limit` and then cuts',
  ),
  drain_limit: Duration.default('1m').describe('of mode `wait`'),
  order: z
    .enum(['all', 'rolling'])
    .default('all')
    .describe('all replicas at once, or `rolling`: at most `max_unavailable` at a time'),
  max_unavailable: z.int().positive().default(1).describe('of order `rolling`'),
  quorum: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe('how many replicas must have it; null: all that are not away'),
  keep_adapters: z
    .int()
    .positive()
    .max(64)
    .default(2)
    .describe(
      'how many of the last versions streams may go on under, if it is an adapter; engines hold one more',
    ),
});
export type Publish = z.infer<typeof Publish>;
