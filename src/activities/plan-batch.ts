import { createReadStream } from 'node:fs';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { BatchId, BatchRequest } from '../model/batch-request.js';
import { Fault, describeError } from '../model/faults.js';
import type { Problem } from '../model/problems.js';
import { invalidBatchRequest, preview, problemsOf } from '../model/problems.js';
import { Sample, lostDigits } from '../model/sample.js';
import { slicesOf } from '../model/slices.js';
import type { Activities } from './contract.js';
import type { Dependencies, GenerationPool } from './dependencies.js';

/** Beyond ten, more problems do not help; reading stops soon after. */
const ENOUGH_PROBLEMS = 11;

/**
 * Validates the request and every sample of it, asks the service for health and model, and puts request and manifest
 * into the store. Nothing is written before everything is valid.
 */
export function createPlanBatch(dependencies: Dependencies): Activities['planBatch'] {
  const { attempt, store, countOpenRollouts } = dependencies;
  return (input) =>
    attempt(async ({ workflow_id, signal }) => {
      const batch_id = parseBatchId(workflow_id);
      const { request, samples } = await prepareBatch({ input, signal }, dependencies);
      const { existed } = await store.createBatch({ batch_id, request, samples });
      if (existed) await waitForEarlierRun(batch_id, countOpenRollouts);
      return {
        batch_id,
        samples: samples.length,
        num_repeats: request.num_repeats,
        slices: slicesOf({ samples: samples.length, num_repeats: request.num_repeats }),
        max_in_flight: request.max_in_flight,
        policy_version: request.policy_version,
        continued: existed,
      };
    });
}

export function parseBatchId(workflowId: string): string {
  const parsed = BatchId.safeParse(workflowId);
  if (parsed.success) return parsed.data;
  throw invalidBatchRequest([
    { where: 'workflow id', what: parsed.error.issues[0]?.message ?? 'not a batch id' },
  ]);
}

/** The normalised request, its model resolved, and the raw JSON of its samples; or everything that is wrong with it. */
export async function prepareBatch(
  { input, signal }: { input: unknown; signal: AbortSignal },
  dependencies: Dependencies,
): Promise<{ request: BatchRequest; samples: string[] }> {
  const parsed = BatchRequest.safeParse(input);
  if (!parsed.success) throw invalidBatchRequest(problemsOf(parsed.error, input));
  const request = parsed.data;
  const pool = dependencies.service(request.generation.service);
  if (pool === undefined) {
    const what = `expected one of ${dependencies.known.services.join(', ')}, got ${preview(request.generation.service)}`;
    throw invalidBatchRequest([{ where: 'generation.service', what }]);
  }
  const samples = await readSamples(request, dependencies);
  const model = await resolveModel({ request, pool, signal });
  return { request: { ...request, generation: { ...request.generation, model } }, samples };
}

async function readSamples(request: BatchRequest, dependencies: Dependencies): Promise<string[]> {
  const { samples, limit } = request;
  const isFile = !Array.isArray(samples);
  const rows = isFile
    ? linesOf(await locate(samples.path, dependencies.deployment.inputs_dir))
    : samples.map((sample) => JSON.stringify(sample));
  const raw: string[] = [];
  const problems: Problem[] = [];
  for await (const text of rows) {
    if (limit !== null && raw.length === limit) break;
    problems.push(...checkSample(text, { row: raw.length, dependencies }));
    if (problems.length >= ENOUGH_PROBLEMS) break;
    raw.push(text);
  }
  if (problems.length > 0) throw invalidBatchRequest(problems);
  if (raw.length === 0) {
    throw invalidBatchRequest([
      { where: 'samples', what: 'expected at least one sample, got an empty file' },
    ]);
  }
  return raw;
}

/** Below `inputs_dir`, after symbolic links: a request cannot reach elsewhere. */
async function locate(file: string, inputsDirectory: string): Promise<string> {
  const where = 'samples.path';
  const root = await realpath(inputsDirectory);
  const wanted = path.resolve(root, file);
  if (!isInside(wanted, root)) {
    throw invalidBatchRequest([
      { where, what: `expected a file below inputs_dir, got ${preview(file)}` },
    ]);
  }
  let found: string;
  try {
    found = await realpath(wanted);
  } catch (error) {
    throw invalidBatchRequest([
      { where, what: `cannot read ${preview(file)} below inputs_dir: ${describeError(error)}` },
    ]);
  }
  if (isInside(found, root)) return found;
  throw invalidBatchRequest([
    { where, what: `expected a file below inputs_dir, got a link out of it: ${preview(file)}` },
  ]);
}

const isInside = (file: string, root: string): boolean => file.startsWith(root + path.sep);

/** Blank lines at the end of a file are no samples; anywhere else they are reported like any torn line. */
async function* linesOf(file: string): AsyncGenerator<string> {
  const lines = createInterface({ input: createReadStream(file, 'utf8'), crlfDelay: Infinity });
  let blank = 0;
  try {
    for await (const line of lines) {
      if (line.trim() === '') blank += 1;
      else {
        for (; blank > 0; blank--) yield '';
        yield line;
      }
    }
  } catch (error) {
    throw new Fault({
      type: 'StoreFault',
      message: `reading ${path.basename(file)}: ${describeError(error)}`,
    });
  }
}

function checkSample(
  text: string,
  { row, dependencies }: { row: number; dependencies: Dependencies },
): Problem[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return [
      {
        where: `samples row ${row}`,
        what: `expected a JSON object, got ${preview(text)} (${describeError(error)})`,
      },
    ];
  }
  const parsed = Sample.safeParse(value);
  if (!parsed.success) {
    return problemsOf(parsed.error, value).map(({ where, what }) => ({
      where: `samples row ${row}: ${where}`,
      what,
    }));
  }
  const problems: Problem[] = [];
  const lost = lostDigits(text);
  if (lost !== null) {
    problems.push({
      where: `samples row ${row}`,
      what: `the integer ${lost} is beyond 2^53 and would lose digits; write it as a string`,
    });
  }
  const { task_name } = parsed.data;
  if (dependencies.environment(task_name) === undefined) {
    problems.push({
      where: `samples row ${row}: task_name`,
      // Upstream's text (statement 15), then what there is.
      what: `No environment found for task type: ${task_name}; expected one of ${dependencies.known.environments.join(', ')}`,
    });
  }
  return problems;
}

/** Every replica has to be there and to serve the model: a rollout may be played on any of them. */
async function resolveModel({
  request,
  pool,
  signal,
}: {
  request: BatchRequest;
  pool: GenerationPool;
  signal: AbortSignal;
}): Promise<string> {
  const described = await Promise.all(pool.replicas.map((replica) => replica.describe(signal)));
  const first = described[0]?.models[0]?.id;
  const model = request.generation.model ?? pool.model ?? first ?? '';
  for (const [i, { models }] of described.entries()) {
    const served = models.find(({ id }) => id === model);
    if (served === undefined) {
      const what = `expected a model that ${pool.replicas[i]?.replica ?? 'the service'} serves (${models.map(({ id }) => id).join(', ')}), got ${preview(model)}`;
      throw invalidBatchRequest([{ where: 'generation.model', what }]);
    }
    if (served.max_model_len !== null && request.max_seq_len > served.max_model_len) {
      const what = `expected at most the model's max_model_len ${served.max_model_len}, got ${request.max_seq_len}`;
      throw invalidBatchRequest([{ where: 'max_seq_len', what }]);
    }
  }
  return model;
}

/** Parent-close termination is asynchronous: children of a terminated run may still be ending. */
async function waitForEarlierRun(
  batchId: string,
  countOpenRollouts: Dependencies['countOpenRollouts'],
): Promise<void> {
  for (const end = Date.now() + 60_000; Date.now() < end;) {
    if ((await countOpenRollouts(batchId)) === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
