import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { baseOf } from '../../model/policy/adapters.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { isUnchanged, withReplica } from '../../model/policy/record.js';
import { viewOf } from '../../model/policy/view.js';
import { canRestore } from '../../model/workflow-safe/policy.js';
import type { PolicyService } from '../dependencies.js';
import { isShared } from './one-engine.js';

const QUESTION_MS = 10_000;

/**
 * Asks a replica that serves whether it is what the record says: one engine, not paused, under its label. One that is
 * something else, whatever made it so, is `unknown` from here on, and restored as any other. Returns what was found; null:
 * nothing, or the record has changed meanwhile.
 */
export async function lookAtReplica(
  { records }: Pick<PolicyService, 'records'>,
  { control, signal }: { control: WeightControl; signal: AbortSignal },
): Promise<string | null> {
  const { replica } = control;
  const record = await records.latest();
  const entry = record?.replicas[replica];
  if (record == null || entry?.state !== 'current') return null;
  const what = await whatIsWrong(control, { record, signal });
  if (what === null) return null;
  const { epoch } = entry;
  const noted: string[] = [];
  await records.change((now) => {
    noted.length = 0;
    if (now === null || !isUnchanged(now, { replica, epoch })) return null;
    noted.push(what);
    return withReplica(now, { replica, state: 'unknown', fault: what });
  });
  return noted[0] ?? null;
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
    return mayBeLoaded && (await control.paused(bound)) ? 'it is paused, by nobody here' : null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault)) throw error;
    return isShared(error) ? error.message.replace(`${control.replica}: `, '') : null;
  }
}
