import { z } from 'zod';
import { Duration } from '../durations.js';
import { Holder } from './holder.js';
import { CacheRule, MAX_PATH, MAX_VERSION, Probe, TakeOver } from './publish.js';

/**
 * Updates with which a trainer's own code puts weights into the engines, by whatever wire it has: `begin` holds them,
 * `alive` says that tensors arrive, `finish` or `abandon` ends it; `attach` names a checkpoint of the same weights.
 */

const MOST_ENGINES = 1000;
const MAX_NAME = 200;

const name = z.string().min(1).max(MAX_NAME);
const path = z.string().min(1).max(MAX_PATH);
const version = z.int().nonnegative().max(MAX_VERSION);
const ticket = name.describe('from the answer of `begin`');
const groups = z.array(z.int().nonnegative()).max(MOST_ENGINES);

export const Begin = z.strictObject({
  version: version
    .nullable()
    .default(null)
    .describe('above all that an engine has served; null: the next one, as the answer says'),
  holder: Holder.describe('who sends the weights'),
  take_over: TakeOver,
  checkpoint: path
    .nullable()
    .default(null)
    .describe('files with the same weights, which each engine can read: what repairs an engine'),
  only: z
    .array(z.string().min(1).max(MAX_PATH))
    .min(1)
    .max(MOST_ENGINES)
    .nullable()
    .default(null)
    .describe('URLs of some engines; null: all of them'),
  base: version
    .nullable()
    .default(null)
    .describe(
      'the weights are a difference to this version: engines with another one are left out',
    ),
  mode: z
    .enum(['keep', 'abort'])
    .default('keep')
    .describe('streams: `keep` freezes them, `abort` cuts them'),
  cache: CacheRule.default('reset').describe(
    'the prefix cache: emptied (`reset`), or kept; then `cache_salt` separates versions',
  ),
  groups: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe('how many collectives the engines form; null: one each'),
  quorum: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe('how many groups must have it; null: all that are not away'),
  probe: z
    .union([z.literal('agree'), Probe, z.null()])
    .default('agree')
    .describe(
      "`agree`: the logprobs of fixed ids change, and are the same on all engines; or the trainer's own ones; null: none",
    ),
  tolerance: z.number().positive().default(0.05).describe('of probe `agree`, for each logprob'),
  same: z.boolean().default(false).describe('the weights may be those that an engine already has'),
  pause_limit: Duration.default('10m').describe('the longest pause, whatever `alive` says'),
  stall_limit: Duration.default('2m').describe('the longest silence, before a repair may begin'),
  code: z
    .enum(['ours', 'trainer'])
    .default('ours')
    .describe("who calls the engines' routes for weights: this package, or the trainer's own code"),
  own_label: name
    .nullable()
    .default(null)
    .describe("the label that the trainer's code gives the engines; null: none"),
});
export type Begin = z.infer<typeof Begin>;

export const Finish = z.strictObject({
  ticket,
  sent: groups.describe('the groups that have all weights'),
  labels: z
    .record(z.string(), name)
    .default({})
    .describe("by URL: the label that the trainer's code gave an engine"),
});
export type Finish = z.infer<typeof Finish>;

export const Abandon = z.strictObject({
  ticket,
  touched: groups.describe('the groups that may have got something'),
});
export type Abandon = z.infer<typeof Abandon>;

export const Attach = z.strictObject({
  version: version.describe('whose weights the files have'),
  checkpoint: path.describe('each engine reads it from its own file system'),
});
export type Attach = z.infer<typeof Attach>;
