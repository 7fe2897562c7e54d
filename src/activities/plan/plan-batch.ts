import { setTimeout as sleep } from 'node:timers/promises';
import type { DescribedReplica } from '../../generation/generation-service.js';
import type { Completion } from '../../model/batch-request.js';
import { BatchId, BatchRequest } from '../../model/batch-request.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { Fault } from '../../model/faults.js';
import type { Limits } from '../../model/workflow-safe/limits.js';
import { invalidBatchRequest, preview, problemsOf } from '../../model/problems.js';
import { slicesOf, talliesOf } from '../../model/workflow-safe/slices.js';
import { askEnvironments } from './ask-environments.js';
import type { Activities, BatchPlan } from '../contract.js';
import type { Dependencies, GenerationPool } from '../dependencies.js';
import type { Tasks } from './read-samples.js';
import { readSamples } from './read-samples.js';

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
      if (existed) {
        await waitForEarlierRun(batch_id, { countOpenRollouts, signal });
        await store.reopenBatch(batch_id);
      }
      const { num_repeats } = request;
      const slices = slicesOf({ samples: samples.length, num_repeats });
      return {
        batch_id,
        samples: samples.length,
        num_repeats,
        slices,
        tallies: talliesOf(slices.length),
        max_in_flight: request.max_in_flight,
        limits: limitsOf(request),
        min_k: minKOf(request.completion),
        refill: refillOf(request.completion),
        continued: existed,
      };
    });
}

function minKOf(completion: Completion): BatchPlan['min_k'] {
  if (completion.policy !== 'min_k') return null;
  const { k, deadline } = completion;
  return { k, deadline_ms: deadline === null ? null : toMs(deadline) };
}

const refillOf = (completion: Completion): BatchPlan['refill'] =>
  completion.policy === 'refill' ? { max_replacements: completion.max_replacements } : null;

export const limitsOf = (request: BatchRequest): Limits => ({
  max_rollout_turns: request.max_rollout_turns,
  max_new_tokens: request.generation.max_new_tokens,
  max_seq_len: request.max_seq_len,
  rollout_timeout: request.rollout_timeout,
});

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
  const { samples, tasks } = await readSamples(request, dependencies);
  const pool = asksPolicy(tasks, dependencies) ? poolFor(request, dependencies) : null;
  await askEnvironments(tasks, { dependencies, signal });
  if (pool === null) return { request, samples };
  const model = await resolveModel({ request, pool, signal });
  return { request: { ...request, generation: { ...request.generation, model } }, samples };
}

/** Agents ask their own policy: a batch of nothing else needs no generation service. */
const asksPolicy = (tasks: Tasks, { environment }: Dependencies): boolean =>
  [...tasks.keys()].some((task) => environment(task)?.environment.agent === undefined);

function poolFor(
  { generation }: BatchRequest,
  { service, known }: Pick<Dependencies, 'service' | 'known'>,
): GenerationPool {
  const pool = service(generation.service);
  if (pool !== undefined) return pool;
  const what = `expected one of ${known.services.join(', ')}, got ${preview(generation.service)}`;
  throw invalidBatchRequest([{ where: 'generation.service', what }]);
}

/**
 * One replica has to be there, and every one that is has to serve the model: a rollout may be played on any of them.
 */
async function resolveModel({
  request,
  pool,
  signal,
}: {
  request: BatchRequest;
  pool: GenerationPool;
  signal: AbortSignal;
}): Promise<string> {
  const described = await describe(pool, signal);
  const first = described[0]?.models[0]?.id;
  const model = request.generation.model ?? pool.model ?? first ?? '';
  for (const { replica, models } of described) {
    const served = models.find(({ id }) => id === model);
    if (served === undefined) {
      const what = `expected a model that ${replica} serves (${models.map(({ id }) => id).join(', ')}), got ${preview(model)}`;
      throw invalidBatchRequest([{ where: 'generation.model', what }]);
    }
    if (served.max_model_len !== null && request.max_seq_len > served.max_model_len) {
      const what = `expected at most the model's max_model_len ${served.max_model_len}, got ${request.max_seq_len}`;
      throw invalidBatchRequest([{ where: 'max_seq_len', what }]);
    }
  }
  return model;
}

/** No journal counts the protocol errors of planning: a server that is not what it should be is not asked again. */
async function describe(pool: GenerationPool, signal: AbortSignal): Promise<DescribedReplica[]> {
  try {
    return await pool.describe(signal);
  } catch (error) {
    if (!(error instanceof Fault) || error.type !== 'ProtocolError') throw error;
    const { type, message, at } = error;
    throw new Fault({ type, message, retryable: false, cause: error, ...(at !== null && { at }) });
  }
}

/**
 * Parent-close termination is asynchronous: children of a terminated run may still be ending. An attempt that was given
 * up meanwhile throws: the batch may be another one's, and closed.
 */
async function waitForEarlierRun(
  batchId: string,
  { countOpenRollouts, signal }: Pick<Dependencies, 'countOpenRollouts'> & { signal: AbortSignal },
): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end;) {
    const open = await countOpenRollouts(batchId);
    signal.throwIfAborted();
    if (open === 0) return;
    await sleep(500, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}
