import { createHash, randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { JsonObject } from '../../json/exact.js';
import { formatJson, numberOf } from '../../json/exact.js';
import { filtered } from '../../../src/platform/json/order.js';
import { mostSamples } from '../../../src/model/workflow-safe/slices.js';
import { storedName } from '../../../src/trajectories/places.js';
import { MOST_AT_ONCE } from '../../../src/workers/memory.js';
import type { RolloutCollectionConfig } from '../../config/schemas.js';
import { ATTEMPT_INDEX } from '../../keys.js';
import type { GymRow } from '../../row.js';
import type { Prepared } from './prepare.js';
import { mapped, writeNewLines } from '../../new-file.js';

/**
 * Rows at once if `num_samples_in_parallel` is unlimited: as many as a few workers play. Each worker
 * plays `MOST_AT_ONCE.steps` of them; a larger number may be requested.
 */
const UNLIMITED = 1024;

export interface SampleSettings {
  /** Name of the environment of kind `gym_agent`. */
  environment: string;
  /** Attempts of each row within this batch. */
  max_attempts: number;
  /** Limit of one `/run`; null: the environment's. */
  run_timeout: string | null;
}

/**
 * Row k of the samples file is row k of the batch: the whole row as text, so that numbers reach the agent as they were
 * written.
 */
export function sampleOf(row: GymRow, settings: SampleSettings): string {
  const { environment, max_attempts, run_timeout } = settings;
  const bare = filtered(row.row, (key) => key !== ATTEMPT_INDEX);
  const sample = {
    message_log: [],
    task_name: environment,
    extra_env_info: {
      agent: row.agent,
      task_index: row.key.task,
      rollout_index: row.key.rollout,
      attempt_index: row.attempt_index,
      max_attempts: row.attempt_index + max_attempts,
      timeout: run_timeout,
      row: formatJson(bare),
    },
  };
  return JSON.stringify(sample);
}

/** Below `inputs_dir`. */
const samplesPath = (batch_id: string): string =>
  path.join('collections', `${storedName(batch_id)}.jsonl`);

export const samplesFile = ({ inputs_dir }: { inputs_dir: string }, batch_id: string): string =>
  path.join(inputs_dir, samplesPath(batch_id));

export async function writeSamples(
  rows: readonly GymRow[],
  { inputs_dir, batch_id, ...settings }: SampleSettings & { inputs_dir: string; batch_id: string },
): Promise<void> {
  const file = samplesFile({ inputs_dir }, batch_id);
  await mkdir(path.dirname(file), { recursive: true });
  await writeNewLines(
    file,
    mapped(rows, (row) => sampleOf(row, settings)),
  );
}

/** Input of workflow `rolloutBatch`. */
export function requestOf({
  batch_id,
  num_samples_in_parallel,
  rollout_timeout,
  output,
  policy = null,
}: {
  batch_id: string;
  num_samples_in_parallel: number | null;
  rollout_timeout: string;
  output: string;
  /** Where the deployment's policy answers the agents; absent: it does not. */
  policy?: { max_seq_len: number | null; params: JsonObject } | null;
}): Record<string, unknown> {
  return {
    ...(policy !== null && ofPolicy(policy)),
    samples: { path: samplesPath(batch_id) },
    num_repeats: 1,
    rollout_timeout,
    max_in_flight: inFlight(num_samples_in_parallel),
    rollout_workflows: false,
    // A collection has its own rule for rows that fail.
    min_valid: 0,
    metadata: { output_jsonl_fpath: output },
  };
}

const USUAL_LENGTH = 32_768;
/** An agent has its own limit of steps. */
const MOST_CALLS = 10_000;

/** Agents say how long an answer may be; what they say of sampling is the batch's. */
function ofPolicy({
  max_seq_len,
  params: { temperature, top_p },
}: {
  max_seq_len: number | null;
  params: JsonObject;
}): Record<string, unknown> {
  const length = max_seq_len ?? USUAL_LENGTH;
  return {
    max_seq_len: length,
    max_rollout_turns: MOST_CALLS,
    generation: {
      max_new_tokens: length,
      ...(temperature != null && { temperature: numberOf(temperature) }),
      ...(top_p != null && { top_p: numberOf(top_p) }),
    },
  };
}

/** The smaller of upstream's two limits of rows at once; null: none. */
export function parallelOf({
  num_samples_in_parallel: samples,
  max_resident_rollout_tasks: tasks,
}: Pick<RolloutCollectionConfig, 'num_samples_in_parallel' | 'max_resident_rollout_tasks'>):
  number | null {
  const limits = [samples, tasks].flatMap((limit) => (limit === null || limit === 0 ? [] : limit));
  return limits.length === 0 ? null : Math.min(...limits);
}

/** The batch needs a number, so "no limit" is a large one. */
export const inFlight = (parallel: number | null): number => parallel ?? UNLIMITED;

/** How many rows play at once, and what limits that. */
export function aboutParallel(
  parallel: number | null,
  { rows, isLocal }: { rows: number; isLocal: boolean },
): string[] {
  const wanted = Math.min(rows, inFlight(parallel));
  const texts: string[] = [];
  if (parallel !== null) texts.push(`Querying with ${parallel} concurrent requests`);
  else if (wanted < rows)
    texts.push(
      `num_samples_in_parallel is unlimited: ${wanted} of ${rows} rows at once, so that workers keep them in memory; +num_samples_in_parallel=N for more`,
    );
  if (wanted > MOST_AT_ONCE.steps && (isLocal || parallel === null)) {
    const how = isLocal ? '--config with a deployment of several workers' : 'several workers';
    texts.push(
      `A worker plays at most ${MOST_AT_ONCE.steps} rows at once: for more of them, ${how}`,
    );
  }
  return texts;
}

/** Throws for more rows than one batch can have, and names the alternative. */
export function checkSize(rows: number): void {
  const most = mostSamples({ num_repeats: 1 });
  if (rows <= most) return;
  throw new Error(
    `expected at most ${most} rows in one collection, got ${rows}: split the input into shards with disable_aggregation=true, then union them with \`temporal-rollout aggregate\``,
  );
}

/** A new id, named after the output file (or another batch), so that it is recognisable in the Web UI. */
export function newBatchId(named: string): string {
  const stem = path.parse(named).name.replace(/[^A-Za-z0-9._-]+/g, '-');
  const name = stem.replace(/^[^A-Za-z0-9]+/, '').slice(0, 80);
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  return `${name === '' ? 'collection' : name}-${time}-${randomBytes(2).toString('hex')}`;
}

/**
 * The local stack's folder: `before`, its earlier one, even if the output file has moved; otherwise one for each output
 * file, so that collections run side by side.
 */
export function folderFor(
  before: string | null,
  { output, below }: { output: string; below: string },
): string {
  return before ?? path.join(below, `${path.parse(output).name}-${hashOf(output).slice(0, 8)}`);
}

/** A batch that runs in this folder's stack keeps its queue, even if its output has moved. */
export function queueFor(
  { earlier, is_ours }: Pick<Prepared, 'earlier' | 'is_ours'>,
  { output, store_root }: { output: string; store_root: string },
): string {
  const isHere = is_ours && earlier?.store_root === store_root;
  return isHere ? earlier.task_queue : localQueue(output);
}

/** One queue for each output file: this command's worker plays no other collection's rows against its servers. */
const localQueue = (output: string): string => `collect-${hashOf(output).slice(0, 12)}`;

const hashOf = (output: string): string =>
  createHash('sha256').update(path.resolve(output)).digest('hex');
