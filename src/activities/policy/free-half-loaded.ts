import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import { withReplica } from '../../model/policy/record.js';
import { canRestore } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { Attempt } from '../attempt.js';
import type { UpdateReplica } from '../contract/policy.js';
import type { PolicyService } from '../dependencies.js';
import { holdHalfLoaded, WHY_IT_HANGS } from './half-loaded.js';
import { viewOf } from '../../model/policy/view.js';
import { refused } from './policy-view.js';

/**
 * A replica that is half loaded is cut off first. One that hangs is asked again later; where there is nothing to load,
 * that is all that is done for it.
 */
export async function isOnlyFreed(
  { replica, version }: UpdateReplica,
  {
    policy,
    control,
    attempt: { signal },
  }: { policy: PolicyService; control: WeightControl; attempt: Pick<Attempt, 'signal'> },
): Promise<boolean> {
  const before = await policy.records.latest();
  const entry = before?.replicas[replica];
  // One that sleeps gets its memory first.
  if (entry === undefined || entry.needs === null || entry.slept !== null) return false;
  const hold = await holdHalfLoaded(control, { signal });
  const { paused_until, needs } = entry;
  if (hold !== 'held') {
    const isLate = hold === 'hangs' && paused_until !== null && paused_until < commonMs();
    if (isLate && needs !== 'restart')
      await note(policy, { replica, paused_until, needs: 'restart' });
    const message = `${replica}: ${hold === 'hangs' ? WHY_IT_HANGS : 'it does not answer'}`;
    if (version !== null) throw refused(message);
    throw new Fault({ type: 'GenerationUnavailable', message, at: replica });
  }
  if (version !== null || canRestore(viewOf(before))) return false;
  await note(policy, { replica, paused_until: null, needs: 'load' });
  return true;
}

const note = (
  { records }: PolicyService,
  change: { replica: string } & Pick<ReplicaEntry, 'paused_until' | 'needs'>,
): Promise<PolicyRecord | null> =>
  records.change((now) => {
    const entry = now?.replicas[change.replica];
    if (now === null || entry === undefined || entry.state === 'current') return null;
    return withReplica(now, { ...change, state: 'unknown', fault: entry.fault });
  });
