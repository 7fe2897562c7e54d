import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { AGREED_IDS, distance } from '../../model/policy/agreement.js';
import type { PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import { isUnchanged, withReplica } from '../../model/policy/record.js';
import { needsLoad } from '../../model/policy/sleepers.js';
import { canRestore } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { UpdatedReplica, UpdateReplica } from '../contract/policy.js';
import type { PolicyService } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { refused } from './policy-view.js';

/** An engine has kept its weights while it slept: it is woken, and has to be the process that was put to sleep. */

/** For all of it: tens of gigabytes come back from the memory of the host. */
const WAKE_MS = 300_000;
const QUESTION_MS = 10_000;
/** How far each logprob may be off: the weights are the same, computed on other memory. */
const TOLERANCE = 0.05;

interface Waking {
  policy: PolicyService;
  control: WeightControl;
  signal: AbortSignal;
}

/** null: it does not sleep, or it has to be loaded whole. Weights of which there are no files have to come otherwise. */
export async function wakeReplica(
  { replica, version }: UpdateReplica,
  waking: Waking,
): Promise<UpdatedReplica | null> {
  const { policy, signal } = waking;
  const record = await policy.records.latest();
  const entry = record?.replicas[replica];
  if (record === null || entry === undefined || entry.slept === null) return null;
  if (version !== null && version !== record.version) return null;
  const isLoaded = needsLoad(record, entry) || !(await isSame(entry, waking));
  if (isLoaded) {
    if (canRestore(viewOf(record))) return null;
    const left = await note(policy, {
      replica,
      entry,
      needs: 'load',
      fault: 'it has slept without weights',
    });
    return { paused_s: 0, load_s: 0, view: viewOf(left) };
  }
  const began = performance.now();
  const paused_until = commonMs() + WAKE_MS;
  const taken = await policy.records.change((now) =>
    now !== null && isUnchanged(now, { replica, epoch: entry.epoch })
      ? withReplica(now, { replica, state: 'updating', paused_until })
      : null,
  );
  const epoch = entry.epoch + 1;
  if (!isUnchanged(taken, { replica, epoch }))
    throw refused(`${replica}: another attempt has taken it over`);
  const failed = await woken(entry, { ...waking, paused_until });
  signal.throwIfAborted();
  const after = await policy.records.change((now) => {
    if (now === null || !isUnchanged(now, { replica, epoch })) return null;
    return failed === null
      ? withReplica(now, { replica, state: 'current' })
      : withReplica(now, { replica, state: 'unknown', ...failed });
  });
  if (failed !== null) throw refused(`${replica}: wake: ${failed.fault}`);
  return { paused_s: (performance.now() - began) / 1000, load_s: 0, view: viewOf(after) };
}

/** Another process has other weights, or is awake. */
async function isSame({ slept }: ReplicaEntry, { control, signal }: Waking): Promise<boolean> {
  const bound = { within_ms: QUESTION_MS, signal };
  const said = await control.said(bound);
  return said === null ? await control.isAsleep(bound) : said === slept?.label;
}

/** Why it does not have the weights that it was put to sleep with; null: it has. */
async function woken(
  { slept }: ReplicaEntry,
  { control, signal, paused_until }: Waking & { paused_until: number },
): Promise<{ fault: string; needs: 'load' | null } | null> {
  const bound = (): Bound => ({ within_ms: paused_until - commonMs(), signal });
  try {
    await control.cutOff(bound());
    await control.wakeUp(null, bound());
    await control.resetCache(bound());
    await control.resume(bound());
    const changed = await whatChanged(slept?.before ?? null, { control, ...bound() });
    return changed === null ? null : { fault: changed, needs: 'load' };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault) || error.type === 'StoreFault') throw error;
    // It is tried again.
    return { fault: error.message.replace(`${control.replica}: `, ''), needs: null };
  }
}

/** Compares what it computes with what it did before it slept, under the same weights; null: it is the same, or unknown. */
export async function whatChanged(
  before: readonly number[] | null,
  { control, ...bound }: { control: WeightControl } & Bound,
): Promise<string | null> {
  if (before === null) return null;
  const after = await control.promptLogprobs(AGREED_IDS, bound);
  return distance(before, after) <= TOLERANCE
    ? null
    : 'it computes something else than before it slept';
}

const note = (
  { records }: PolicyService,
  {
    replica,
    entry,
    needs,
    fault,
  }: { replica: string; entry: ReplicaEntry; needs: 'load'; fault: string },
): Promise<PolicyRecord | null> =>
  records.change((now) =>
    now !== null && isUnchanged(now, { replica, epoch: entry.epoch })
      ? withReplica(now, { replica, state: 'unknown', needs, fault })
      : null,
  );
