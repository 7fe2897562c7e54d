import type { Failure } from '../../model/journal.js';
import { totalsOf } from '../../model/trajectory.js';
import type { StopReason } from '../../model/workflow-safe/stop-reasons.js';
import type { Dependencies } from '../dependencies.js';
import type { Hold } from '../hold.js';
import { endSessionOf } from '../turn/session.js';

/** Writes a rollout's end, once its session is over. `failure`: of an end that is not valid. */
export async function endRollout(
  hold: Hold,
  {
    stop_reason,
    failure,
    ...dependencies
  }: { stop_reason: StopReason; failure: Failure | null } & Pick<Dependencies, 'environment'>,
): Promise<void> {
  await endSessionOf(hold, dependencies);
  const { journal } = hold;
  await journal.append({ kind: 'end', stop_reason, totals: totalsOf(journal.trajectory), failure });
}
