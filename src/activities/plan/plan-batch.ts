import { setTimeout as sleep } from 'node:timers/promises';
import type { Completion } from '../../model/batch-request.js';
import { limitsOf, parseBatchId } from '../../model/batch-request.js';
import { priorityOf } from '../../model/priority.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { slicesOf, talliesOf } from '../../model/workflow-safe/slices.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { BatchPlan, PlayedPlan } from '../contract.js';
import type { Body, Dependencies } from '../dependencies.js';
import { heartbeatFor } from '../../model/workflow-safe/heartbeats.js';
import { pageOf } from '../report.js';
import { restoreLimits } from '../limits/limit-facts.js';
import { STORE_MEMO, TASKS_MEMO } from '../contract/one-deployment.js';
import { prepareBatch } from './prepare-batch.js';

/**
 * Validates the request and all its samples, asks the service for health and model, and puts request and manifest into
 * the store. Nothing is written before everything is valid.
 */
export const planBatch: Body<'planBatch'> = async ([input, options], dependencies) => {
  const { attempt, store } = dependencies;
  const batch_id = parseBatchId(attempt.workflow_id);
  const { logprobs_mode, tasks, ...batch } = await prepareBatch(input, dependencies);
  const { request, samples } = batch;
  const { existed } = await store.createBatch({ batch_id, ...batch });
  const isAgain = options?.restart === true;
  if (existed) {
    await waitForEarlierRun(batch_id, { ...dependencies, ...attempt });
    await restoreLimits({ batch_id, run: attempt.run_id }, store.facts);
    await store.reopenBatch(batch_id);
    if (isAgain) await forgetRollouts(batch_id, store);
  }
  const { num_repeats, max_in_flight } = request;
  const slices = slicesOf(samples.length, { num_repeats });
  return {
    batch_id,
    samples: samples.length,
    num_repeats,
    slices,
    tallies: talliesOf(slices.length),
    max_in_flight,
    ...(await playedPlan(batch_id, {
      request,
      tasks,
      in_flight: Math.min(max_in_flight, samples.length * num_repeats),
      dependencies,
    })),
    min_k: minKOf(request.completion),
    refill: refillOf(request.completion),
    logprobs_mode,
    ...(request.min_valid > 0 && { min_valid: request.min_valid }),
    continued: existed && !isAgain,
    ...(!request.rollout_workflows && { plays_rollouts: true as const }),
  };
};

/** What a stream's plan has as well. `in_flight`: how many rollouts are played at once. */
export async function playedPlan(
  id: string,
  planned: {
    request: Parameters<typeof priorityOf>[1] & Parameters<typeof limitsOf>[0];
    tasks: string[];
    in_flight: number;
    dependencies: Pick<Dependencies, 'deployment' | 'storeId'>;
  },
): Promise<PlayedPlan> {
  const { request, tasks, in_flight, dependencies } = planned;
  return {
    priority: priorityOf(id, request),
    heartbeat_timeout_ms: heartbeatFor(dependencies.deployment, in_flight),
    limits: limitsOf(request),
    looks: true,
    memo: { [STORE_MEMO]: await dependencies.storeId(), [TASKS_MEMO]: tasks },
    ...pageOf(id, dependencies),
  };
}

/** Removes the journals of an earlier run. Request and samples stay, and its rows until the closing pass. */
async function forgetRollouts(
  batch_id: string,
  store: Pick<TrajectoryStore, 'listJournals' | 'forgetJournals'>,
): Promise<void> {
  const repeatsOf = new Map<number, number>();
  // One row of a thousand replacements is no reason to look for as many of every other row.
  for (const { row, repeat } of await store.listJournals(batch_id))
    repeatsOf.set(row, Math.max(repeatsOf.get(row) ?? 0, repeat + 1));
  for (const repeats of new Set(repeatsOf.values())) {
    const rows = [...repeatsOf].filter(([, own]) => own === repeats).map(([row]) => row);
    await store.forgetJournals({ batch_id, rows, repeats });
  }
}

function minKOf(completion: Completion): BatchPlan['min_k'] {
  if (completion.policy !== 'min_k') return null;
  const { k, deadline } = completion;
  return { k, deadline_ms: deadline === null ? null : toMs(deadline) };
}

const refillOf = (completion: Completion): BatchPlan['refill'] =>
  completion.policy === 'refill' ? { max_replacements: completion.max_replacements } : null;

/** Children that are ending become fewer. Those that a reset left behind play on, and the batch takes them over. */
const ENDING_MS = 5000;

/**
 * Waits for children of a terminated run that are still ending, because parent-close termination is asynchronous. An
 * attempt that was abandoned meanwhile throws: another one may own the batch, or it may be closed.
 */
async function waitForEarlierRun(
  batchId: string,
  { countOpenRollouts, signal }: Pick<Dependencies, 'countOpenRollouts'> & { signal: AbortSignal },
): Promise<void> {
  let [fewest, until] = [Infinity, 0];
  for (const end = performance.now() + 60_000; performance.now() < end;) {
    const open = await countOpenRollouts(batchId);
    signal.throwIfAborted();
    if (open < fewest) [fewest, until] = [open, performance.now() + ENDING_MS];
    if (open === 0 || performance.now() > until) return;
    await sleep(500, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}
