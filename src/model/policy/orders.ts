import { z } from 'zod';
import { Count, Flag, Positive, Word, oneOf, orNull, refuserOf, Duration } from '../field-kinds.js';
import { FiniteNumbers, TokenIds } from '../untrusted.js';
import { SLEEP_LEVELS } from '../workflow-safe/policy-states.js';

const name = Word.max(200);

/** Each process of a trainer makes an incarnation of its own. */
export const Holder = z.object({
  name: name.describe('name of the trainer, the same after a restart'),
  incarnation: name.describe('id of its process, made anew at each start'),
});
export type Holder = z.infer<typeof Holder>;

/** Update `release`. */
export const Release = z.object({
  holder: z
    .strictObject({
      name: name.describe('of the trainer'),
      incarnation: orNull(name).describe('of its process; null: any'),
    })
    .describe('who holds the service'),
});
export type Release = z.infer<typeof Release>;

/** The record contains path and probe, and is written anew with each change of a replica. */
const MAX_PATH = 4096;
const MAX_PROBE = 16_384;

const file = Word.max(MAX_PATH);
const path = file.describe('each engine reads it from its own file system');

export const Weights = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('checkpoint').describe('files'), path }),
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
    const [ids, wanted] = [prompt_ids.length, prompt_ids.length - 1];
    const refuse = refuserOf(context);
    if (ids < 2) refuse(['prompt_ids'], `expected at least 2 ids, got ${ids}`);
    else if (ids > MAX_PROBE)
      refuse(['prompt_ids'], `expected at most ${MAX_PROBE} ids, got ${ids}`);
    else if (logprobs.length !== wanted)
      refuse(
        ['logprobs'],
        `expected ${wanted} logprobs, one for each id but the first, got ${logprobs.length}`,
      );
  });
export type Probe = z.infer<typeof Probe>;

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
  probe: orNull(Probe).describe(
    "the trainer's own logprobs of a prompt. A replica with other logprobs does not serve",
  ),
  pause_limit: Duration.default('10m').describe(
    'longest time of a pause. Then running generations are cut off and the engine is resumed',
  ),
};

/** A version that no engine loads uses up its number. Steps, milliseconds and digits of dates are below. */
export const MAX_VERSION = 10 ** 15;
const version = Count.max(MAX_VERSION);

export const Manner = z.object(manner);

const some = orNull(Positive);
const TakeOver = Flag.describe('takes the service from another trainer that holds it');

export const Publish = z.strictObject({
  version: version.describe(
    'number above all earlier ones. The same again, with the same weights, completes what is missing',
  ),
  ...manner,
  holder: orNull(Holder).describe(
    'trainer that brings the weights; null is refused while a trainer holds the service',
  ),
  take_over: TakeOver,
  mode: PauseMode.default('keep').describe(
    'running generations: `keep` freezes them, `abort` cuts them off, `wait` lets them end for `drain_limit` and then cuts them off',
  ),
  drain_limit: Duration.default('1m').describe('longest wait of mode `wait`'),
  order: oneOf(['all', 'rolling'], 'all').describe(
    'all replicas at once, or `rolling`: at most `max_unavailable` at a time',
  ),
  max_unavailable: Positive.default(1).describe('replicas at a time of order `rolling`'),
  quorum: some.describe('how many replicas must have it; null: all that are not away'),
  keep_adapters: Positive.max(64)
    .default(2)
    .describe(
      'of adapters: under how many of the last versions generations may run. Engines hold one more',
    ),
});
export type Publish = z.infer<typeof Publish>;

export const MOST_ENGINES = 1000;
const ticket = name.describe('from the answer of `begin`');
const groups = z.array(Count).max(MOST_ENGINES);

export const Begin = z.strictObject({
  version: orNull(version).describe(
    'number above all that an engine has served; null: the next one, which the answer names',
  ),
  holder: Holder.describe('trainer that sends the weights'),
  take_over: TakeOver,
  checkpoint: orNull(file).describe(
    'files with the same weights, which each engine can read. They repair an engine that lost its weights',
  ),
  only: orNull(z.array(file).min(1).max(MOST_ENGINES)).describe(
    'URLs of some engines; null: all of them',
  ),
  base: orNull(version).describe(
    'the weights are a difference to this version: engines with another one are left out',
  ),
  mode: oneOf(['keep', 'abort'], 'keep').describe(
    'running generations: `keep` freezes them, `abort` cuts them off',
  ),
  cache: manner.cache,
  groups: some.describe('how many collectives the engines form; null: one each'),
  quorum: some.describe('how many groups must have it; null: all that are not away'),
  probe: z
    .union([z.literal('agree'), Probe, z.null()])
    .default('agree')
    .describe(
      "`agree`: the logprobs of fixed ids change, and are the same on all engines; or the trainer's own ones; null: none",
    ),
  tolerance: z
    .number()
    .positive()
    .default(0.05)
    .describe('largest difference of one logprob, for probe `agree`'),
  same: Flag.describe('the weights may be those that an engine already has'),
  pause_limit: Duration.default('10m').describe('the longest pause, whatever `alive` says'),
  stall_limit: Duration.default('2m').describe('the longest silence, before a repair may begin'),
  code: oneOf(['ours', 'trainer'], 'ours').describe(
    "who calls the engines' routes for weights: this package, or the trainer's own code",
  ),
  own_label: orNull(name).describe(
    "the label that the trainer's code gives the engines; null: none",
  ),
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
  checkpoint: file.describe('each engine reads it from its own file system'),
});
export type Attach = z.infer<typeof Attach>;

export const Level = z.literal(SLEEP_LEVELS);

export const Sleep = z.object({
  level: Level.default(1).describe(
    '1: the weights wait in the memory of the host; 2: they are dropped, and loaded again from files, or sent',
  ),
  until: Duration.default('10m').describe('they are woken then, whatever has become of the holder'),
  holder: Holder.describe('who needs their memory'),
});
export type Sleep = z.infer<typeof Sleep>;

export const Wake = z.object({
  tags: orNull(z.array(z.enum(['weights', 'kv_cache', 'scheduling'])).min(1)).describe(
    '`["weights"]`: memory for weights alone, and they serve nothing yet; null: all',
  ),
});
export type Wake = z.infer<typeof Wake>;
