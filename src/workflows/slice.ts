import {
  CancellationScope,
  getExternalWorkflowHandle,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { SliceInput, Tally } from '../activities/contract.js';
import { closeSlice } from './activity-options.js';
import { leavesStopped } from './children/min-k.js';
import { NO_TALLY, runRollouts } from './children/run-rollouts.js';
import { checkSliceInput } from './steering/input-checks.js';
import { unawaited, shareSignal, sliceProgressQuery, tallySignal } from './steering/messages.js';
import { followLimits } from './steering/parent-limits.js';
import { isShare } from './steering/signal-checks.js';
import { handleStop } from './steering/stop.js';

/** Some rows of a large batch, with a share of its `max_in_flight`. It closes its own part of the files. */
export async function rolloutSlice(input: SliceInput): Promise<Tally> {
  const { batch_id, first, last, num_repeats, max_in_flight, tallies, k, limits } =
    checkSliceInput(input);
  const { max_replacements = null, rollout_timeout, plays_rollouts = false } = input;
  const { heartbeat_timeout_ms } = input;
  const rollouts = (last - first + 1) * num_repeats;
  const interval = tallies > 0 ? Math.max(1, Math.ceil(rollouts / tallies)) : Infinity;
  let tally = NO_TALLY;
  let ended: number[] = [];

  const { parent } = workflowInfo();
  const batch = parent && getExternalWorkflowHandle(parent.workflowId);

  const report = (now: Tally): void => {
    // Replacements add no reports: the batch's history has room for a fixed number per slice.
    const isNews = now.done > tally.done && now.done % interval === 0 && now.done <= rollouts;
    tally = now;
    if (!isNews) return;
    unawaited(batch?.signal(tallySignal, { first, tally, ended }));
    ended = [];
  };
  const run = runRollouts({
    batch_id,
    rows: { first, last },
    num_repeats,
    max_in_flight,
    onChange: report,
    onEnded: (row) => {
      ended.push(row);
    },
    k,
    max_replacements,
    plays_rollouts,
    ...(rollout_timeout !== undefined && { rollout_timeout }),
    ...(heartbeat_timeout_ms !== undefined && { heartbeat_timeout_ms }),
  });
  setHandler(sliceProgressQuery, () => tally);
  setHandler(shareSignal, (maxInFlight, maxReplacements) => {
    if (!isShare(maxInFlight, maxReplacements)) return;
    run.setMaxInFlight(maxInFlight);
    if (maxReplacements !== undefined) run.setMaxReplacements(maxReplacements);
  });
  followLimits(run, limits);
  const { isStopped, onStop } = handleStop();
  onStop(run.stop);
  try {
    await run.finished;
  } finally {
    const stopped = isStopped() || leavesStopped(k);
    await CancellationScope.nonCancellable(() => closeSlice({ batch_id, first, last, stopped }));
  }
  return tally;
}
