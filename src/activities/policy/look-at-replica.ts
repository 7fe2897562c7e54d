import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { baseOf } from '../../model/policy/adapters.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { withReplica } from '../../model/policy/record.js';
import { viewOf } from '../../model/policy/view.js';
import { canRestore } from '../../model/workflow-safe/policy.js';
import type { PolicyService } from '../dependencies.js';
import { isShared, QUESTION_MS } from './ask.js';
import { changeFound, withoutUrl } from './policy-service.js';

/**
 * Asks a replica that serves whether it is what the record says: one engine, not paused, under its label. One that is
 * something else, whatever made it so, is `unknown` from here on, and restored as any other. Returns what was found; null:
 * nothing, or the record has changed meanwhile.
 */
export async function lookAtReplica(
  policy: Pick<PolicyService, 'records'>,
  { control, signal }: { control: WeightControl; signal: AbortSignal },
): Promise<string | null> {
  const { replica } = control;
  const record = await policy.records.latest();
  const entry = record?.replicas[replica];
  if (record == null || entry?.state !== 'current') return null;
  const what = await whatIsWrong(control, { record, signal });
  if (what === null) return null;
  const after = await changeFound({ policy, replica, epoch: entry.epoch }, (now) =>
    withReplica(now, { replica, state: 'unknown', fault: what }),
  );
  return after?.replicas[replica]?.fault === what ? what : null;
}

/** null: nothing, or it does not answer, which its streams notice. */
async function whatIsWrong(
  control: WeightControl,
  { record, signal }: { record: PolicyRecord; signal: AbortSignal },
): Promise<string | null> {
  const bound = { within_ms: QUESTION_MS, signal };
  const entry = record.replicas[control.replica];
  const expected = entry === undefined ? null : baseOf(entry);
  try {
    const label = await control.asOne({ starts: true }, bound);
    if (expected !== null && label !== null && label !== String(expected))
      return `it says weights ${JSON.stringify(label)}, expected ${JSON.stringify(String(expected))}: somebody else has changed them`;
    // Without files it would serve nothing any more, where somebody may only have to resume it.
    const mayBeLoaded = canRestore(viewOf(record));
    return mayBeLoaded && (await control.paused(bound))
      ? 'it is paused, and not by this deployment'
      : null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault)) throw error;
    return isShared(error) ? withoutUrl(error.message, control.replica) : null;
  }
}
