import { readFileSync, readdirSync } from 'node:fs';
import { z } from 'zod';
import { Generation, Step } from '../../servers/scripts.js';

/** Recorded runs of upstream's rollout loops, of two commits: see the README of each folder. */
const FOLDER = new URL('../../goldens/rollouts/', import.meta.url);
const NEWER = new URL('../../goldens/rollouts-7ea279a/cases.jsonl', import.meta.url);

const LogMessage = z.strictObject({
  role: z.string(),
  content: z.string(),
  token_ids: z.array(z.int()),
  generation_logprobs: z.array(z.number()).optional(),
});

/** One entry per sample in each column. */
const Columns = z
  .object({
    message_log: z.array(z.array(LogMessage)),
    extra_env_info: z.array(z.record(z.string(), z.unknown())),
    task_name: z.array(z.string()),
  })
  .catchall(z.array(z.unknown()));

const GenerationCall = z.strictObject({
  sample: z.int(),
  turn: z.int(),
  input_length: z.int(),
  stop_strings: z.array(z.string()).nullable(),
  greedy: z.boolean(),
  output_length: z.int().optional(),
  finish_reason: z.enum(['stop', 'length']).optional(),
  raised: z.unknown().optional(),
});
export type GenerationCall = z.infer<typeof GenerationCall>;

/** A call for several samples; lists by sample. */
const EnvironmentCall = z.strictObject({
  task: z.string(),
  samples: z.array(z.int()),
  turns: z.array(z.int()),
  messages: z.array(z.int()),
  keys: z.array(z.string()),
  last_content: z.array(z.string()),
  metadata_in: z.array(z.record(z.string(), z.unknown())),
});

const ErrorText = z.strictObject({ type: z.string(), message: z.string() });

export const GoldenCase = z.object({
  name: z.string(),
  semantics: z.enum(['nemo-rl-sync', 'nemo-rl-async', 'nemo-rl']),
  config: z.strictObject({
    max_seq_len: z.int(),
    max_rollout_turns: z.int().nullable(),
    greedy: z.boolean().nullable(),
  }),
  input: Columns,
  script: z.strictObject({
    /** Paddings are of upstream's tensors: there are none on the wire. */
    backend: z.strictObject({
      limit: z.enum(['context', 'none']).default('context'),
      max_new_tokens: z.int().optional(),
      return_logprobs: z.boolean().default(true),
      async_engine: z.boolean().default(true),
      extra_pad: z.int().optional(),
      output_pad: z.int().optional(),
      cfg_pad_token_id: z.int().optional(),
    }),
    generation: z.array(z.array(Generation)),
    environment: z.strictObject({
      task_names: z.array(z.string()),
      kinds: z.record(z.string(), z.enum(['math', 'sliding_puzzle'])).default({}),
      steps: z.array(z.array(Step)),
      tasks: z
        .record(
          z.string(),
          z.strictObject({
            next_stop_strings_none: z.boolean().optional(),
            terminateds_float: z.boolean().optional(),
          }),
        )
        .default({}),
    }),
  }),
  expected: z.object({
    batch: Columns.extend({ total_reward: z.array(z.number()) }).optional(),
    metrics: z.record(z.string(), z.number()).optional(),
    /** What upstream's overlong filtering makes of the batch's column. */
    overlong_filtering: z.strictObject({ loss_multiplier: z.array(z.number()) }).optional(),
    error: ErrorText.extend({ cause: ErrorText.optional() }).optional(),
    generation_calls: z.array(GenerationCall).optional(),
    env_calls: z.array(EnvironmentCall).optional(),
    /** Names the samples whose generation failed: the async loop continues without them. */
    printed: z.array(z.string()).default([]),
  }),
});
export type GoldenCase = z.infer<typeof GoldenCase>;

/** What is known of every file; `kind: function` has other fields than {@link GoldenCase}. */
export interface GoldenFile {
  name: string;
  kind: 'hand' | 'random' | 'function';
  /** Not of a function. */
  semantics?: GoldenCase['semantics'];
}

export function readGoldenFiles(): GoldenFile[] {
  const files = readdirSync(FOLDER)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => ({ ...(read(file) as GoldenFile), name: file.replace(/\.json$/, '') }));
  return [...files, ...(newer().values() as Iterable<GoldenFile>)];
}

export const readGoldenCase = (name: string): GoldenCase =>
  GoldenCase.parse(newer().get(name) ?? read(`${name}.json`));

const read = (file: string): unknown => JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8'));

let cases: Map<string, unknown> | null = null;

/** Of the newer commit, by name: a line for each. */
function newer(): Map<string, unknown> {
  cases ??= new Map(
    readFileSync(NEWER, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { name: string })
      .map((one) => [one.name, one]),
  );
  return cases;
}

/** The environments that a case is played with; one kind in every recorded case. */
export type EnvironmentKind = 'http' | 'math' | 'sliding_puzzle';
export const environmentKind = ({ script }: GoldenCase): EnvironmentKind =>
  Object.values(script.environment.kinds)[0] ?? 'http';
