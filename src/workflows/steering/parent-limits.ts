import { setHandler } from '@temporalio/workflow';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { limitsProblem } from '../../model/workflow-safe/limits.js';
import type { RolloutRunner } from '../children/run-rollouts.js';
import { limitsSignal } from './messages.js';

/** A slice or a group follows the limits of its parent: those from before its start, then those of signal `limits`. */
export function followLimits(run: RolloutRunner, before: LimitsChange | undefined): void {
  if (before !== undefined) run.setLimits(before);
  setHandler(limitsSignal, (change) => {
    // The parent checks the room before it signals; other clients do not.
    if (limitsProblem(change) === null && run.roomProblem({ limits: change }) === null)
      run.setLimits(change);
  });
}
