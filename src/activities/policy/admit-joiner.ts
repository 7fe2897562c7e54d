import type { WeightControl } from '../../generation/weight-control.js';
import type { EngineIdentity, PolicyRecord } from '../../model/policy/record.js';
import { isUnchanged, withReplica } from '../../model/policy/record.js';
import { withoutOverdue } from '../../model/policy/replicas.js';
import { describeError } from '../../platform/errors.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { UpdatedReplica, UpdateReplica } from '../contract/policy.js';
import type { PolicyService } from '../dependencies.js';
import { examineJoiner, examineLogprobs, withIdentityOf } from './examine-joiner.js';
import { viewOf } from '../../model/policy/view.js';
import { knownControl, refused } from './policy-view.js';

interface Joining {
  policy: PolicyService;
  control: WeightControl;
  signal: AbortSignal;
}

/** What a replica is to be restored as. */
export interface Admission {
  /** What all replicas are, if it has joined; null: it was one of them before. */
  identity: EngineIdentity | null;
  /** Nothing is left to be done for it. */
  done: UpdatedReplica | null;
}

const KNOWN: Admission = { identity: null, done: null };

/**
 * Examines a replica that has joined, before anything else is done with it. If nothing is published, it serves the
 * weights that it has. One that has been away for too long leaves instead.
 */
export async function admit(
  { replica, version }: UpdateReplica,
  { policy, control, signal }: Joining,
): Promise<Admission> {
  if (version !== null) return KNOWN;
  const record = await withoutForgotten(policy);
  const entry = record?.replicas[replica];
  if (record === null || entry === undefined)
    return { identity: null, done: { paused_s: 0, load_s: 0, view: viewOf(record) } };
  // One that is half loaded computes nothing before it has whole weights, and there may be none yet.
  if (entry.examined || (record.version === null && entry.needs !== null)) return KNOWN;
  const { epoch } = entry;
  try {
    const identity = await examineJoiner(policy, { control, signal });
    if (record.version !== null) return { identity, done: null };
    const all = await examineLogprobs(policy, { control, signal, identity });
    const admitted = await policy.records.change((now) =>
      now !== null && isUnchanged(now, { replica, epoch })
        ? asAdmitted(withReplica(now, { replica, state: 'current', version: null }), {
            replica,
            identity: all,
          })
        : null,
    );
    return { identity, done: { paused_s: 0, load_s: 0, view: viewOf(admitted) } };
  } catch (error) {
    signal.throwIfAborted();
    const fault = describeError(error);
    await policy.records.change((now) =>
      now !== null && isUnchanged(now, { replica, epoch }) && now.replicas[replica]?.fault !== fault
        ? withReplica(now, { replica, state: 'away', fault })
        : null,
    );
    throw error;
  }
}

/** The logprobs of a joiner, which has whole weights by now. */
export async function examineLoaded(
  identity: EngineIdentity | null,
  joining: Joining,
): Promise<EngineIdentity | null> {
  if (identity === null) return null;
  return await examineLogprobs(joining.policy, { ...joining, identity });
}

/** The record with a joiner that is one of the others from here on. */
export function asAdmitted(
  record: PolicyRecord,
  { replica, identity }: { replica: string; identity: EngineIdentity | null },
): PolicyRecord {
  const entry = record.replicas[replica];
  if (identity === null || entry === undefined) return record;
  const replicas = { ...record.replicas, [replica]: { ...entry, examined: true } };
  return withIdentityOf({ ...record, replicas }, identity);
}

/** The control of a replica, which may have joined since this process has read the record. */
export async function controlOf(policy: PolicyService, replica: string): Promise<WeightControl> {
  const known = knownControl(policy, replica);
  if (known !== undefined) return known;
  await policy.records.latest();
  const control = knownControl(policy, replica);
  if (control !== undefined) return control;
  throw refused(
    `${replica} is no replica any more: it has left, or temporal.yaml does not name or allow it`,
  );
}

const withoutForgotten = ({
  records,
  forget_after_ms,
}: PolicyService): Promise<PolicyRecord | null> =>
  records.change((now) => {
    if (now === null) return null;
    const next = withoutOverdue(now, { at: commonMs(), forget_after_ms });
    return next === now ? null : next;
  });
