import {
  CancellationScope,
  getExternalWorkflowHandle,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { SliceInput, Tally } from '../activities/contract.js';
import { closeSlice } from './activity-options.js';
import { followParent } from './children/follow-parent.js';
import { leavesStopped } from './children/min-k.js';
import { NO_TALLY, runRollouts } from './children/run-rollouts.js';
import { unawaited, shareSignal, tallySignal } from './steering/messages.js';
import { checkSliceInput, isShare } from './steering/input-checks.js';

/** Some rows of a large batch, with a share of its `max_in_flight`. It closes its own part of the files. */
export async function rolloutSlice(input: SliceInput): Promise<Tally> {
  const {
    first,
    last,
    tallies,
    limits,
    max_replacements = null,
    ...given
  } = checkSliceInput(input);
  const { batch_id, num_repeats, k } = given;
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
    ...given,
    rows: { first, last },
    onChange: report,
    onEnded: (row) => {
      ended.push(row);
    },
    max_replacements,
  });
  setHandler(shareSignal, (maxInFlight, maxReplacements) => {
    if (!isShare(maxInFlight, maxReplacements)) return;
    run.setMaxInFlight(maxInFlight);
    if (maxReplacements !== undefined) run.setMaxReplacements(maxReplacements);
  });
  const { isStopped } = followParent(run, { limits, tally: () => tally });
  try {
    await run.finished;
  } finally {
    const stopped = isStopped() || leavesStopped(k);
    await CancellationScope.nonCancellable(() => closeSlice({ batch_id, first, last, stopped }));
  }
  return tally;
}
