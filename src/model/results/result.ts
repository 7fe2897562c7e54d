import { z } from 'zod';
import { count, maybe, text, countOrNull, bool } from '../field-kinds.js';
import { foreignObject } from '../foreign-object.js';

/** How many of a batch's rollouts ended how. The last five add up to the first. */
export const Counts = z.strictObject({
  requested: count('all, including replacements and rollouts that never started'),
  completed: count('valid rollouts: the rows of rollouts.jsonl'),
  failed: count('rows of failures.jsonl that failed'),
  timed_out: count('those whose `rollout_timeout` passed'),
  stopped: count('those that were stopped, also before they started'),
  cancelled: count('those that were cancelled or never started'),
});
export type Counts = z.infer<typeof Counts>;

const path = (what: string) => text(`path of ${what}`);

/** What one kind of results consists of where nothing can be appended or renamed. */
export const ResultObjects = z.array(
  z.strictObject({
    key: text('below the folder of metrics.json'),
    rows: count('how many it has'),
    bytes: count('its size'),
    sha256: text('of its content'),
  }),
);

const objects = (what: string) => ResultObjects.describe(`of ${what}, in order`);

/** Each kind of them that a result may have. */
export const OBJECTS = {
  rollouts: objects('the valid rollouts'),
  failures: objects('the others'),
  groups: objects('the table of groups'),
  sequences: objects('the sequences of the valid rollouts').exactOptional(),
};

/** The result of workflow `rolloutBatch`, and the content of metrics.json. */
export const BatchResult = z.strictObject({
  schema_version: z.literal(1).describe('the version of this format'),
  batch_id: text('the id of the batch or stream'),
  counts: Counts.describe('how many rollouts ended how; the last five add up to the first'),
  metrics: z.record(z.string(), z.number()).describe('numbers by name (docs/metrics.md)'),
  files: z
    .strictObject({
      rollouts: path('rollouts.jsonl, the valid rollouts'),
      failures: path('failures.jsonl, the others'),
      groups: path('groups.jsonl, a line for each group'),
      metrics: path('metrics.json, which has this result'),
      sequences: path(
        'rollouts.arrow, the sequences of the valid rollouts, where temporal.yaml asks for it',
      ).exactOptional(),
    })
    .describe(
      "absolute paths on the worker's host; on S3 addresses, whose part after # names a member of `objects`",
    ),
  objects: z
    .strictObject({
      epoch: text('changes when the batch is started again'),
      ...OBJECTS,
    })
    .exactOptional()
    .describe('in metrics.json on S3 alone: what its results consist of'),
  metadata: foreignObject().describe("the request's"),
  notes: maybe(
    z.array(z.string()),
    'what is true of all its valid rollouts and rarely meant, in words: truncated, reward 0, one text',
  ),
});
export type BatchResult = z.infer<typeof BatchResult>;

/** The content of metrics.json of a stream's step. */
export const StepResult = BatchResult.extend({
  step: count('the step, from 0'),
  version: countOrNull(
    'the version of the weights that train on it; null: none was ever given or served',
  ),
  final: bool("the stream's epochs are used up; this step may be short"),
  notes: maybe(
    z.array(z.string()),
    'what the trainer should know of it, in words: groups that faster versions overtook, what is true of all its rollouts',
  ),
});
export type StepResult = z.infer<typeof StepResult>;
