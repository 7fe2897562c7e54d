import { commonMs } from '../platform/waits/common-clock.js';
import type { Attempts } from '../model/faults.js';
import { Fault, isDenial, isStoreFault, judged } from '../model/faults.js';
import type { Names } from '../model/journal/standing.js';
import { faultBefore, waitedFor } from '../model/journal/standing.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import type { Journal } from '../trajectories/trajectory-store.js';

interface FailedCall {
  journal: Journal;
  /** The number of the call's answer, by default that of the turn in progress. */
  turn?: number;
  /** For a rollout without a start, whose journal does not say it: attempts and names from the request. */
  attempts?: Attempts;
  names?: Names;
}

export const namesOf = ({ start, settings_in_force }: Trajectory): Names => ({
  task: start?.task_name ?? '',
  service: settings_in_force?.generation.service ?? '',
});

/**
 * Counts a fault in the journal, where it outlives the attempt. Returns the error to throw: `judged` (model/faults.ts)
 * decides whether it is final. A time limit that passes is not counted: nothing has failed, something was waited for.
 */
export async function recordFault(
  error: unknown,
  { journal, turn = journal.trajectory.observations.length, attempts, names }: FailedCall,
): Promise<unknown> {
  if (!(error instanceof Fault) || isStoreFault(error) || error.type === 'TimedOut') return error;
  const { trajectory } = journal;
  const { type, at, status, failureClass, uncounted } = error;
  const now_s = commonMs() / 1000;
  const waited = waitedFor(type, {
    before: faultBefore(trajectory.standing, uncounted ? null : turn),
    names: names ?? namesOf(trajectory),
    now_s,
    is_denial: isDenial(error),
  });
  const { denied_since } = waited;
  const fault =
    denied_since === undefined ? error : judged(error, { denied_s: now_s - denied_since });
  await journal.append({
    kind: 'fault',
    turn,
    type,
    message: fault.message.slice(0, 2000),
    replica: at,
    ...(failureClass !== null && { failure_class: failureClass }),
    ...(status !== null && failureClass !== null && { status }),
    ...(uncounted && { uncounted }),
    waited,
  });
  const allowed = trajectory.settings_in_force?.attempts ?? attempts;
  return judged(fault.with({ waited }), {
    of_turn: trajectory.call_faults.get(turn) ?? {},
    ...(allowed && { attempts: allowed }),
  });
}
