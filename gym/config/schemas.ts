import { z } from 'zod';
import type { Json, JsonObject } from '../json/exact.js';
import { isNumber, isObject, jsonNumber } from '../json/exact.js';
import { reprOf } from '../python/repr.js';

/**
 * The configurations of NeMo Gym's collection commands, with its names, defaults and error texts. The input is parsed
 * JSON whose numbers keep their text (`temperature: 1.0` is sent as `1.0`), so numbers and booleans are read as
 * pydantic reads them.
 */

/** `4`, `4.0` and `"4"`. */
export const Whole = z.unknown().transform((value, context) => {
  const text = isNumber(value) ? value.text : value;
  const number = typeof text === 'string' && text.trim() !== '' ? Number(text) : text;
  if (typeof number === 'number' && Number.isSafeInteger(number)) return number;
  context.addIssue({ code: 'custom', message: `expected an integer, got ${shown(value)}` });
  return z.NEVER;
});

const BOOLEANS: Partial<Record<string, boolean>> = {
  ...Object.fromEntries(['true', 't', 'yes', 'y', 'on', '1'].map((text) => [text, true])),
  ...Object.fromEntries(['false', 'f', 'no', 'n', 'off', '0'].map((text) => [text, false])),
};

const Flag = z.unknown().transform((value, context) => {
  const text = isNumber(value) ? value.text : String(value).toLowerCase();
  const flag = typeof value === 'object' && !isNumber(value) ? undefined : BOOLEANS[text];
  if (flag !== undefined) return flag;
  context.addIssue({ code: 'custom', message: `expected true or false, got ${shown(value)}` });
  return z.NEVER;
});

export const Text = z.string({ error: ({ input }) => `expected text, got ${shown(input)}` });

const Params = z.custom<JsonObject>((value) => isObject(value as Json), {
  error: ({ input }) => `expected an object, got ${shown(input)}`,
});

/** A number that keeps its text is an object to zod. */
const Skills = z.preprocess(
  (value) => (isNumber(value) ? Number(value.text) : value),
  z.strictObject({ path: Text }),
);

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : reprOf(value as Json);
}

const optional = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => value ?? null, schema.nullable());
const defaulted = <T extends z.ZodType>(schema: T, value: z.output<T>) =>
  z.preprocess((given) => (given === undefined ? jsonOfDefault(value) : given), schema);

/** A missing field is null. */
function orNull<T>(read: (value: unknown, context: z.core.$RefinementCtx) => T) {
  return z.preprocess((value) => value ?? null, z.unknown().transform(read));
}

const jsonOfDefault = (value: unknown): unknown =>
  typeof value === 'number' ? jsonNumber(value) : value;

const NumRepeats = orNull((value, context): number | Record<string, number> => {
  if (value === null) return 1;
  const isDict = isObject(value as Json);
  const parsed = isDict ? z.record(z.string(), Whole).safeParse(value) : Whole.safeParse(value);
  const fail = (message: string) => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  if (!parsed.success) {
    return fail(`expected an integer or {agent: integer, _default: integer}, got ${shown(value)}`);
  }
  const repeats = parsed.data;
  if (typeof repeats === 'number') {
    return repeats < 1 ? fail(`num_repeats must be >= 1, got ${repeats}`) : repeats;
  }
  const bad = Object.entries(repeats).filter(([, count]) => count < 1);
  if (bad.length === 0) return repeats;
  const named = Object.fromEntries(bad.map(([agent, count]) => [agent, jsonNumber(count)]));
  return fail(`num_repeats dict values must be >= 1, got ${reprOf(named)}`);
});

const Driver = orNull((value, context) => {
  if (value === null) return null;
  const message =
    `a driver is Python code that Gym loads (${shown(value)}); ` +
    'temporal-rollout collects by itself and cannot run it. Leave it out, or collect with `gym eval run`';
  context.addIssue({ code: 'custom', message });
  return z.NEVER;
});

/**
 * A field of NeMo Gym 0.7.0 that would change what is played or counted: refused, but for values that ask for nothing.
 */
const refused = (why: string, usual: Json = null) =>
  orNull((value, context) => {
    const isEmpty = value instanceof Object && Object.keys(value).length === 0;
    if (value === null || value === false || value === usual || isEmpty) return null;
    context.addIssue({ code: 'custom', message: `${why}, got ${shown(value)}` });
    return z.NEVER;
  }).describe(`refused: ${why}`);

const NO_ZEROS = 'metrics here count rows that have a result';
const NO_ROUTES = 'rows go to the agent that their agent_ref names, not to an environment server';
const OWN_AGENTS = 'agents are those of the rows: write agent_ref into them';

/** Fields of what is counted. */
const COUNTED = {
  count_failure_classes_as_zero: refused(NO_ZEROS),
  count_missing_rollouts_as_zero: refused(NO_ZEROS),
};

const notNegative = (number: number): boolean => number >= 0;
const NOT_NEGATIVE = 'expected 0 or more';

/** Descriptions are the texts of `--help`. */
const SHARED = {
  output_jsonl_fpath: Text.describe('the results; the other files are named after it'),
  num_samples_in_parallel: optional(Whole.refine(notNegative, NOT_NEGATIVE)).describe(
    '/run calls at once; null and 0: unlimited',
  ),
  responses_create_params: defaulted(Params, {}).describe(
    "laid over each row's, field by field: +responses_create_params.temperature=0.6; a nested object replaces the row's whole",
  ),
  disable_aggregation: defaulted(Flag, false).describe('no aggregate metrics, as of a shard'),
  route_failures_to_sidecar: defaulted(Flag, false).describe(
    'the exit code is 0 also where rows failed; they are in the failures file in any case',
  ),
  require_complete: defaulted(Flag, false).describe(
    'the exit code is 1 while a row has no result, whatever route_failures_to_sidecar says',
  ),
  max_resident_rollout_tasks: optional(
    Whole.refine((count) => count >= 1, 'expected 1 or more'),
  ).describe('a further limit of /run calls at once'),
  rollout_collection_driver: Driver.describe('refused: Python that only Gym can run'),
  environment_routing_mode: refused(NO_ROUTES, 'agent'),
  environment_server_name: refused(NO_ROUTES),
  environment_server_routes: refused(NO_ROUTES),
  ...COUNTED,
  upload_rollouts: defaulted(Flag, true).describe(
    'results also go to the MLflow server that mlflow_tracking_uri, …_experiment_name and …_run_name name, and to the W&B run of wandb_project, …_name and …_api_key',
  ),
};

export const RolloutCollectionConfig = z.strictObject({
  ...SHARED,
  agent_name: optional(Text).describe('for rows without agent_ref'),
  agent_map: refused(OWN_AGENTS),
  fan_out: refused(OWN_AGENTS),
  input_jsonl_fpath: Text.describe('the rows, one JSON object a line'),
  limit: optional(Whole.refine(notNegative, NOT_NEGATIVE)).describe(
    'the first lines only; null and 0: all',
  ),
  num_repeats: NumRepeats.describe('rollouts of each row, or by agent: {a: 32, _default: 1}'),
  num_repeats_add_seed: defaulted(Flag, false).describe(
    'repeat r is generated with seed r, by metadata.extra_body',
  ),
  interleave_repeats: defaulted(Flag, false).describe(
    'starts the repeats round by round (abcabc), not those of each row one behind the other (aabbcc)',
  ),
  resume_from_cache: defaulted(Flag, false).describe(
    'continues a collection: rows with a result are not played again',
  ),
  prompt_config: optional(Text).describe("a prompt's YAML file, for rows without an input"),
  skills: optional(Skills).describe(
    'a directory of skills, whose reference each row and result carries: +skills.path=DIR',
  ),
});
export type RolloutCollectionConfig = z.infer<typeof RolloutCollectionConfig>;

/** A collection of the configuration's data sets of a split, agent by agent. */
export const E2ERolloutCollectionConfig = z.strictObject({
  ...RolloutCollectionConfig.omit({ input_jsonl_fpath: true }).shape,
  split: z
    .enum(['train', 'validation', 'benchmark'], {
      error: ({ input }) => `expected train, validation or benchmark, got ${shown(input)}`,
    })
    .describe('whose data sets: train, validation or benchmark'),
  reuse_existing_data_preparation: defaulted(Flag, false).describe(
    'takes the prepared rows that are there',
  ),
});
export type E2ERolloutCollectionConfig = z.infer<typeof E2ERolloutCollectionConfig>;

export const RolloutAggregationConfig = z.strictObject({
  input_glob: Text.describe('patterns of shard files, separated by commas'),
  output_jsonl_fpath: Text.describe('the merged results; the metrics file is named after it'),
  merge_shards: defaulted(Flag, true).describe('writes the merged results'),
  ...COUNTED,
});
export type RolloutAggregationConfig = z.infer<typeof RolloutAggregationConfig>;

export const RewardProfileConfig = z.strictObject({
  materialized_inputs_jsonl_fpath: Text.describe("a collection's materialised inputs"),
  rollouts_jsonl_fpath: Text.describe('its results'),
  allow_partial_rollouts: defaulted(Flag, false).describe(
    'leaves out input rows without a result, which are an error otherwise',
  ),
});
export type RewardProfileConfig = z.infer<typeof RewardProfileConfig>;
