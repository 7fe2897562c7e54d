import { CancellationScope, CancelledFailure } from '@temporalio/workflow';
import type { BatchPlan, BatchResult } from '../activities/contract.js';
import type { Failures } from '../model/results/answers.js';
import { mostFrequentText } from '../model/workflow-safe/failures.js';
import { closeBatch, planBatch } from './activity-options.js';
import { showBatch } from './views/batch-view.js';
import { failWith } from './ending.js';
import { leavesStopped, stopAtDeadline } from './children/min-k.js';
import { lookWhileTheyRun } from './views/looks.js';
import { runRollouts } from './children/run-rollouts.js';
import { runSlices } from './children/run-slices.js';
import { handOutGroups } from './steering/hand-out-groups.js';
import { checkBatchOptions } from './steering/input-checks.js';
import { steer } from './steering/steer.js';
import { planUnlessStopped } from './steering/stop.js';

/**
 * A batch: a child workflow for each rollout, then one pass over their journals. The workflow id is the batch id.
 * Starting it again continues the batch, whatever ended it, unless a second input says `restart`. A large batch runs as
 * slices.
 */
export async function rolloutBatch(input: unknown, options?: unknown): Promise<BatchResult> {
  const again = checkBatchOptions(options);
  const view = showBatch();
  const steering = steer('the batch is being closed');
  const groups = handOutGroups(view.isStopped);

  // 1. Validate the request, find the engine, put request and manifest into the store.
  const plan = await planUnlessStopped(() => planBatch(input, ...again), view);
  view.planned(plan);
  groups.planned(plan);

  // 2. Run the rollouts. Updates steer them; stop, cancellation or the completion policy ends them, and their journals
  // stay. A failed rollout never fails its siblings (children/run-rollouts.ts): it becomes a row of failures.jsonl.
  // Under `refill` another repeat of its sample replaces it (children/refill.ts). A failed slice leaves its rows to the
  // closing pass.
  const { batch_id, slices } = plan;
  const k = plan.min_k?.k ?? null;
  const endDeadline = stopAtDeadline(plan, () => {
    run.stop();
  });
  const [rows, ...more] = slices;
  const run =
    rows !== undefined && more.length === 0 && plan.plays_rollouts !== true
      ? runRollouts({
          ...plan,
          rows,
          rollout_timeout: plan.limits.rollout_timeout,
          onChange: view.counted,
          onEnded: (row) => {
            groups.ended([row]);
          },
          k,
          max_replacements: plan.refill?.max_replacements ?? null,
        })
      : runSlices({ plan, onResult: view.counted, onEnded: groups.ended });
  view.onStop(run.stop);
  steering.running(run, plan);
  const looks = lookWhileTheyRun(plan, { seen: view.seen, running: run.running });
  await run.finished;
  looks.cancel();
  endDeadline();

  // 3. Close: rows in input order, failures apart, metrics last.
  steering.closing();
  groups.closing();
  view.closing();
  const close = { batch_id, stopped: view.isStopped() || leavesStopped(k) };
  const result = await CancellationScope.nonCancellable(() => closeBatch(close));
  view.closed(result);
  if (CancellationScope.current().consideredCancelled)
    throw new CancelledFailure('the batch was cancelled; its files are written');
  checkValid(result, { plan, failures: view.failures(), isStopped: view.isStopped() });
  return result;
}

/** A trainer would notice too late. The files are written, and the id may be started again. */
function checkValid(
  result: BatchResult,
  {
    plan: { min_valid = 0 },
    failures,
    isStopped,
  }: { plan: BatchPlan; failures: Failures | undefined; isStopped: boolean },
): void {
  const { counts, files } = result;
  const { completed, requested } = counts;
  // A batch that is stopped keeps what there is.
  if (completed >= min_valid || isStopped) return;
  const few = `${completed} of ${requested} rollouts are valid, fewer than min_valid ${min_valid}`;
  const why =
    completed === requested
      ? ['the batch has no more rollouts: lower min_valid, or ask for more']
      : [mostFrequentText(failures), `why: ${files.failures}`].filter((part) => part !== null);
  const message = [few, ...why].join('; ');
  throw failWith({ type: 'TooFewValid', message }, result);
}
