import { setHandler } from '@temporalio/workflow';
import type { Tally } from '../../activities/contract.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { limitsProblem } from '../../model/workflow-safe/limits.js';
import { limitsSignal, sliceProgressQuery } from '../steering/messages.js';
import type { Stop } from '../steering/stop.js';
import { handleStop } from '../steering/stop.js';
import type { RolloutRunner } from './run-rollouts.js';

/**
 * What a slice does for its batch, and a group for its stream: it says how far it is, follows changed limits (those from
 * before its start, then those of signal `limits`), and stops.
 */
export function followParent(
  run: RolloutRunner,
  { limits, tally }: { limits: LimitsChange | undefined; tally: () => Tally },
): Stop {
  setHandler(sliceProgressQuery, tally);
  if (limits !== undefined) run.setLimits(limits);
  setHandler(limitsSignal, (change) => {
    // The parent checks the room before it signals; other clients do not.
    if (limitsProblem(change) === null && run.roomProblem({ limits: change }) === null)
      run.setLimits(change);
  });
  const stop = handleStop();
  stop.onStop(run.stop);
  return stop;
}
