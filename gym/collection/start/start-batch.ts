import { mkdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { BatchClient, BatchHandle } from '../../../src/client/batch-client.js';
import { describeError } from '../../../src/platform/errors.js';
import type { CollectionRequest } from '../request.js';
import type { CollectionFiles } from '../files.js';
import { exists } from '../../../src/platform/files.js';
import { materializedLine } from '../../rows/materialize.js';
import type { GymRow } from '../../row.js';
import {
  checkSize,
  inFlight,
  newBatchId,
  parallelOf,
  requestOf,
  samplesFile,
  writeSamples,
} from './batch-request.js';
import type { Deployment } from './deployment.js';
import type { CollectionState } from '../state.js';
import { mapped, writeNewLines } from '../../new-file.js';
import type { Prepared } from './prepare.js';
import { writeState } from '../state.js';

/** What a batch is started with. */
export interface Starting {
  request: CollectionRequest;
  files: CollectionFiles;
  deployment: Deployment;
  client: BatchClient;
  max_attempts: number;
  /** Hash of the collection's rows. */
  rows_sha256: string;
}

/** Before a fresh collection: removes the files of an earlier one with these names. */
export async function clearFiles({
  files,
  prepared: { rows, earlier },
  deployment,
}: Pick<Starting, 'files' | 'deployment'> & { prepared: Prepared }): Promise<void> {
  // The state first: a process that ends in the middle leaves nothing that could be continued.
  for (const file of [files.state, files.main, files.failures, files.aggregate, files.progress]) {
    await rm(file, { force: true });
  }
  if (earlier !== null) await rm(samplesFile(deployment, earlier.batch_id), { force: true });
  await writeMaterialized(files.materialized, rows);
}

export async function writeMaterialized(file: string, rows: readonly GymRow[]): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeNewLines(file, mapped(rows, materializedLine));
}

/** A new batch of these rows. Its state is written before it starts, so it can be continued from then on. */
export async function startNewBatch(
  rows: readonly GymRow[],
  { request, files, deployment, client, max_attempts, rows_sha256 }: Starting,
): Promise<{ state: CollectionState; batch: BatchHandle }> {
  checkSize(rows.length);
  const { settings, config } = request;
  const { inputs_dir, environment, store_root, task_queue } = deployment;
  const batch_id = await batchIdFor({ request, files, deployment });
  const { run_timeout, rollout_timeout, max_seq_len = null } = settings;
  await writeSamples(rows, { inputs_dir, batch_id, environment, max_attempts, run_timeout });
  const state: CollectionState = {
    schema_version: 1,
    batch_id,
    task_queue,
    store_root,
    folder: deployment.folder,
    rows_sha256,
    request: requestOf({
      batch_id,
      num_samples_in_parallel: parallelOf(config),
      rollout_timeout,
      output: files.main,
      policy:
        deployment.agents.model_server === 'gateway'
          ? { max_seq_len, params: config.responses_create_params }
          : null,
    }),
    rows: rows.map(({ key, attempt_index }) => [key.task, key.rollout, attempt_index]),
    max_attempts,
    failures_from: await sizeOf(files.failures),
  };
  await writeState(files.state, state);
  const batch = await client.start({
    batchId: batch_id,
    taskQueue: task_queue,
    request: state.request,
  });
  return { state, batch };
}

/** The requested id; if a resumed collection's first batch has it, an id named after it. */
async function batchIdFor({
  request: { settings, config },
  files,
  deployment: { store },
}: Pick<Starting, 'request' | 'files' | 'deployment'>): Promise<string> {
  const { batch_id } = settings;
  if (batch_id === null) return newBatchId(files.main);
  if ((await store.findRequest(batch_id)) === null) return batch_id;
  if (config.resume_from_cache) return newBatchId(batch_id);
  throw new Error(`batch ${batch_id} exists already: choose another --batch-id`);
}

const sizeOf = (file: string): Promise<number> =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  );

/**
 * Attaches to a state's batch, or starts it again under its id: with its first request except for the rows at once, and
 * on this deployment's task queue.
 */
export async function continueBatch(
  state: CollectionState,
  {
    request,
    files,
    client,
    deployment,
    say,
  }: Pick<Starting, 'request' | 'files' | 'client' | 'deployment'> & {
    say: (text: string) => void;
  },
): Promise<BatchHandle> {
  const { batch_id } = state;
  const { task_queue } = deployment;
  await putSamples(state, deployment);
  const isRunning = (await client.status(batch_id)) === 'running';
  if (isRunning && state.task_queue !== task_queue) {
    say(
      `Batch ${batch_id} runs on task queue ${state.task_queue}, and workers here serve ${task_queue}: it waits for a worker of its own.`,
    );
  }
  if (!isRunning) await writeState(files.state, { ...state, task_queue });
  const batch = isRunning
    ? client.attach(batch_id)
    : await client.start({ batchId: batch_id, taskQueue: task_queue, request: state.request });
  const wanted = inFlight(parallelOf(request.config));
  if (wanted !== state.request['max_in_flight']) {
    // Needs a worker, and a batch that has not just ended; results wait for neither.
    client.setMaxInFlight(batch_id, wanted).catch((error: unknown) => {
      const why = describeError(error);
      say(`Batch ${batch_id} keeps its number of rows at once instead of ${wanted}: ${why}`);
    });
  }
  return batch;
}

/** The batch reads its samples at each start. If they are gone, the store has them. */
async function putSamples(
  { batch_id }: CollectionState,
  { store, inputs_dir }: Pick<Deployment, 'store' | 'inputs_dir'>,
): Promise<void> {
  const file = samplesFile({ inputs_dir }, batch_id);
  if ((await exists(file)) || (await store.findRequest(batch_id)) === null) return;
  const texts: string[] = [];
  const count = await store.sampleCount(batch_id);
  for (let row = 0; row < count; row++) texts.push(await store.readSampleText({ batch_id, row }));
  await mkdir(path.dirname(file), { recursive: true });
  await writeNewLines(file, texts);
}
