import { z } from 'zod';
import type { Bound } from '../../generation/weight-control.js';
import { Fault, isStoreFault, isTakenOver, takenOver } from '../../model/faults.js';
import { baseOf, withAdapter } from '../../model/policy/adapters.js';
import type { Weights } from '../../model/policy/orders.js';
import type { PolicyRecord, Published, ReplicaChange } from '../../model/policy/record.js';
import {
  fieldsOf,
  inTransit,
  isUnchanged,
  sleptOf,
  withReplica,
} from '../../model/policy/record.js';
import { hasLeft, withoutOverdue } from '../../model/policy/replicas.js';
import { needsLoad } from '../../model/policy/sleepers.js';
import { viewOf } from '../../model/policy/view.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { canRestore, TRANSFER } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { Kept } from '../attempt.js';
import type { Body, PolicyService } from '../dependencies.js';
import type { LoadableAdapter } from './adapter.js';
import { addAdapter, adapterTo, isBelow, NO_BASE } from './adapter.js';
import { QUESTION_MS } from './ask.js';
import type { InPhase } from './engine.js';
import {
  checkAwake,
  checkProbe,
  cutHalfLoaded,
  halfLoaded,
  inNamedPhase,
  openUp,
  pause,
  putAdapter,
  release,
  released,
  WHY_IT_HANGS,
} from './engine.js';
import { asAdmitted, examineLogprobs, examinedJoiner } from './joiner.js';
import type { Found } from './policy-service.js';
import {
  changeFound,
  controlOf,
  knownControl,
  policyOf,
  refused,
  whileShown,
} from './policy-service.js';
import { checkFiles } from './weight-files.js';

/** How often an engine may fail within one pause. Each time the weights are loaded whole again. */
const MOST_FAILURES = 3;
/** For all of it: tens of gigabytes come back from the memory of the host. */
const WAKE_MS = 300_000;
/** For cutting an engine off, also after the attempt's own signal has ended. */
const CUT_MS = 30_000;

const Checkpoint = z.object({
  paused_until: z.number(),
  failures: z.number(),
  /** A load has begun and not ended. */
  is_half: z.boolean().default(false),
});
type Checkpoint = z.infer<typeof Checkpoint>;

interface Beginning extends Found {
  /** The pause that this attempt, or one before it, has begun. */
  kept: Kept<Checkpoint>;
}

/** Compares what the record wants of a replica with what it is, and brings it there. */
export const bringReplica: Body<'bringReplica'> = async ([order], running) => {
  const policy = policyOf(order.service, running);
  const { signal, keeps } = running.attempt;
  const bringing = { order, policy, signal, kept: keeps(Checkpoint), identity: null };
  let isReadable = true;
  try {
    const work = await workFor(bringing);
    const paused_s = work === null ? 0 : await takeThrough(work);
    return { paused_s, view: viewOf(await policy.records.latest()) };
  } catch (error) {
    isReadable = !isStoreFault(error) || (error instanceof Fault && isTakenOver(error));
    throw error;
  } finally {
    await endLostPause(bringing, { isReadable });
  }
};

/**
 * A joiner is examined, one that has slept is woken, an adapter is put beside its weights, or its weights are loaded
 * whole. null: nothing is left to do.
 */
async function workFor(
  bringing: Pick<Beginning, 'order' | 'policy' | 'signal' | 'kept' | 'identity'>,
): Promise<Work | null> {
  const { order, policy, kept } = bringing;
  const isRestored = order.version === null;
  const record = isRestored ? await withoutForgotten(policy) : await policy.records.latest();
  const entry = record?.replicas[order.replica];
  if (record === null || entry === undefined) return null;
  const { replica } = order;
  const control = controlOf(policy, replica);
  const found: Beginning = { ...bringing, replica, control, record, entry, epoch: entry.epoch };
  const { needs, slept } = fieldsOf(entry);
  // A half-loaded replica computes nothing before it has whole weights, and there may be none yet.
  const isKnown = entry.examined || (record.version === null && needs !== null);
  if (isRestored && !isKnown) {
    found.identity = await examinedJoiner(found);
    if (found.identity === null) return null;
  }
  // A replica that an earlier attempt has paused goes through all phases.
  const isPaused = kept.get() !== null;
  if (!isPaused && slept !== null && (isRestored || order.version === record.version)) {
    if (!needsLoad(record, entry) && (await hasKeptWeights(found)))
      return await recordPause(found, { wakes: true });
    if (!canRestore(viewOf(record)))
      return await note(found, { needs: 'load', fault: 'it has slept without weights' });
  }
  const adapter = adapterTo(record, order.version ?? record.version);
  if (adapter !== null && !isPaused && isBelow(entry, adapter))
    return await addAdapter(found, adapter);
  // A sleeping engine gets its memory first.
  if (needs !== null && slept === null && !(await isFreed(found))) return null;
  if (isRestored && (entry.state === 'away' || entry.state === 'unknown'))
    await checkIsThere(found);
  return await recordPause(found, { wakes: false });
}

const withoutForgotten = ({
  records,
  forget_after_ms,
}: PolicyService): Promise<PolicyRecord | null> =>
  records.change((now) => {
    const next = now && withoutOverdue(now, { at: commonMs(), forget_after_ms });
    return next === now ? null : next;
  });

/** False if another process answers: it has other weights, or is awake. */
async function hasKeptWeights({ entry, control, signal }: Found): Promise<boolean> {
  const bound = { within_ms: QUESTION_MS, signal };
  const said = await control.said(bound);
  return said === null ? await control.isAsleep(bound) : said === fieldsOf(entry).slept?.label;
}

async function note(found: Found, change: Partial<ReplicaChange>): Promise<null> {
  await changeFound(found, (now) =>
    withReplica(now, { state: 'unknown', ...change, replica: found.replica }),
  );
  return null;
}

/**
 * A replica that is half loaded is cut off first. One that hangs is asked again later; where there is nothing to load,
 * that is all that is done for it.
 */
async function isFreed(found: Found): Promise<boolean> {
  const { replica, record, entry, control, signal } = found;
  const { version } = found.order;
  const { paused_until, needs, fault } = fieldsOf(entry);
  const reach = await cutHalfLoaded(control, { signal });
  if (reach !== 'answers') {
    const isLate = reach === 'hangs' && paused_until !== null && paused_until < commonMs();
    if (isLate && needs !== 'restart') await note(found, { paused_until, needs: 'restart', fault });
    const message = `${replica}: ${reach === 'hangs' ? WHY_IT_HANGS : 'it does not answer'}`;
    if (version !== null) throw refused(message);
    throw new Fault({ type: 'GenerationUnavailable', message, at: replica });
  }
  if (version !== null || canRestore(viewOf(record))) return true;
  await note(found, { needs: 'load', fault });
  return false;
}

/** A replica that is to be restored may be away. It is waited for without being touched; an update does not wait. */
async function checkIsThere({ replica, entry, control, signal }: Found): Promise<void> {
  const bound = { within_ms: QUESTION_MS, signal };
  const sleep = fieldsOf(entry).slept === null ? null : 'ours';
  const { lacks } = await control.examine({ cache: 'keep', sleep }, bound);
  if (lacks.length > 0) throw refused(`${replica} lacks ${lacks.join(', ')}`);
  // Nothing is paused behind a balancer: nobody would know which of its engines.
  await control.asOne({ starts: true }, bound);
}

/**
 * Nobody else ends the pause of an engine that has left meanwhile. While the record cannot be read no phase can begin,
 * and a pause must end at its limit all the same; the next attempt begins a new one.
 */
async function endLostPause(
  { policy, order: { replica }, kept }: Pick<Beginning, 'policy' | 'order' | 'kept'>,
  { isReadable }: { isReadable: boolean },
): Promise<void> {
  const own = kept.get();
  const record = policy.records.known();
  const entry = record?.replicas[replica];
  const isGone = record !== null && (entry === undefined || hasLeft(entry));
  const isOver = !isReadable && own !== null && own.paused_until < commonMs();
  if (own === null || own.is_half || !(isGone || isOver)) return;
  const control = knownControl(policy, replica);
  if (control !== undefined && (await release(control))) kept.set(null);
}

interface Work extends Beginning {
  /** What it gets; null: it is only woken. */
  load: Load | null;
  /** It sleeps: its memory has to come back before its weights. */
  isAsleep: boolean;
  /** Its logprobs of fixed ids before it slept, with these weights; null: nobody knows them. */
  before: number[] | null;
  paused_until: number;
  /** Says to the next attempt that a load has begun, or has ended. */
  noteHalf: (is_half: boolean) => void;
  bound: () => Bound;
}

interface Load {
  version: number;
  manner: Published & { weights: Weights };
  /** What is loaded on the weights; null: nothing. */
  adapter: LoadableAdapter | null;
  /** What the engine says of its weights until they are loaded. */
  transit: string;
}

/** Phase `record`: from here on the replica gets no requests, and what it samples is fenced. */
async function recordPause(found: Beginning, { wakes }: { wakes: boolean }): Promise<Work> {
  const { order, replica, policy, control, kept, signal } = found;
  const before = await policy.records.latest();
  const entry = before?.replicas[replica];
  const load = wakes ? null : loadOf(before, order.version);
  const own = kept.get();
  const left = entry?.state === 'updating' ? entry.paused_until : null;
  // An abandoned pause is ended before this one begins.
  const isAbandoned = !wakes && own === null && left !== null && left < commonMs();
  if (isAbandoned) await release(control);
  const fresh = commonMs() + (load === null ? WAKE_MS : toMs(load.manner.pause_limit));
  const paused_until = own?.paused_until ?? (isAbandoned || wakes ? fresh : (left ?? fresh));
  const noted = { paused_until, failures: 0, is_half: false, ...own };
  const record = await policy.records.change((now) => {
    if (wakes && !isUnchanged(now, found))
      throw refused(`${replica}: another attempt has taken it over`);
    const still = now?.replicas[replica];
    if (now === null || still === undefined || hasLeft(still)) throw refused(`${replica} has left`);
    if (!wakes) loadOf(now, order.version ?? before?.version ?? null);
    return withReplica(now, { replica, state: 'updating', paused_until });
  });
  if (!wakes) kept.set(noted);
  const { epoch = -1 } = record?.replicas[replica] ?? {};
  const slept = sleptOf(record, replica);
  const isSame = load === null || (entry !== undefined && baseOf(entry) === load.version);
  return {
    ...found,
    load: load && { ...load, transit: inTransit(load.version, record?.writer ?? '') },
    isAsleep: slept !== null,
    before: isSame ? (slept?.before ?? null) : null,
    epoch,
    paused_until,
    noteHalf: (is_half) => {
      kept.set({ ...noted, ...kept.get(), is_half });
    },
    bound: () => ({ within_ms: paused_until - commonMs(), signal }),
  };
}

/** Weights that are neither the record's version nor its target count as unpublished. */
function loadOf(record: PolicyRecord | null, version: number | null): Omit<Load, 'transit'> {
  const wanted = version ?? record?.version ?? null;
  if (wanted === null) throw refused(NO_BASE);
  const adapter = adapterTo(record, wanted);
  const of = (one: number): Published => {
    const known = record?.weights[one];
    if (known !== undefined) return known;
    throw refused(`version ${one} has been overtaken by ${record?.target ?? 'none'}`);
  };
  of(wanted);
  if (adapter?.base === null) throw refused(NO_BASE);
  const below = adapter?.base ?? wanted;
  const { weights, ...manner } = of(below);
  if (weights.kind !== TRANSFER) return { version: below, adapter, manner: { ...manner, weights } };
  throw refused(`there are no files of version ${below}: attach some, or begin the next version`);
}

async function takeThrough(work: Work): Promise<number> {
  const { control, order, replica, policy, load, bound, isAsleep, before } = work;
  const inPhase = phases(work);
  try {
    if (load !== null) await inPhase('load', () => checkFiles(load.version, load.manner));
    const began = performance.now();
    if (load === null) await inPhase('pause', () => control.cutOff(bound()));
    else await loadWeights(work, { load, inPhase });
    const cache = load?.manner.cache ?? 'reset';
    const label = load === null ? null : String(load.version);
    await openUp(control, { label, isAsleep, cache, inPhase, bound });
    const paused_s = (performance.now() - began) / 1000;
    await inPhase('probe', async () => {
      if (before !== null) await checkAwake(control, { before, ...bound() });
      const probe = load?.manner.probe ?? null;
      if (probe !== null) await checkProbe(control, { probe, ...bound() });
    });
    const adapter = load?.adapter ?? null;
    if (adapter !== null)
      await inPhase('adapter', () =>
        putAdapter(control, { adapter, service: order.service, keeps: [], bound }),
      );
    const identity =
      work.identity && (await examineLogprobs(policy, { ...work, identity: work.identity }));
    await policy.records.change((now) => {
      checkOurs(now, work);
      if (now === null) return null;
      const next = withReplica(now, {
        replica,
        state: 'current',
        ...(load && { version: load.version }),
      });
      const whole =
        adapter === null ? next : withAdapter(next, { replica, adapter, keep_adapters: 1 });
      return asAdmitted(whole, { replica, identity });
    });
    return paused_s;
  } catch (error) {
    throw await afterFailure(error, work);
  }
}

async function loadWeights(
  { control, order: { mode, drain_limit }, isAsleep, noteHalf, bound, signal }: Work,
  { load, inPhase }: { load: Load; inPhase: InPhase },
): Promise<void> {
  const { version, manner, transit } = load;
  if (isAsleep)
    await inPhase('wake', async () => {
      await control.wakeUp('weights', bound());
      // A half transfer can be closed only then.
      await cutHalfLoaded(control, { signal });
    });
  const drain = drain_limit === undefined ? {} : { drain_ms: toMs(drain_limit) };
  await inPhase('pause', () => pause(control, { mode, cache: manner.cache, ...drain, bound }));
  await inPhase('label', () => control.label(transit, bound()));
  await inPhase('load', async () => {
    noteHalf(true);
    await control.load(manner.weights, bound());
    noteHalf(false);
    await checkFiles(version, manner);
  });
}

/** Runs a phase if it is still this attempt's, within the pause; names the phase that failed. */
function phases(work: Work): InPhase {
  const { policy, control, replica, paused_until, signal } = work;
  return async (phase, run) => {
    signal.throwIfAborted();
    checkOurs(await policy.records.latest(), work);
    if (commonMs() >= paused_until) throw refused(`${phase}: pause_limit is over`);
    await whileShown({ policy, replica, phase }, () => inNamedPhase(control)(phase, run));
  };
}

function checkOurs(record: PolicyRecord | null, work: Work): void {
  if (!isUnchanged(record, work)) throw takenOver(work.replica);
}

/** Frozen streams are cut, and the engine is resumed, unless it may have a part of its weights: then it stays paused. */
async function afterFailure(error: unknown, work: Work): Promise<unknown> {
  const { replica, control, kept, signal, load, isAsleep, paused_until } = work;
  if (isStoreFault(error)) return error;
  const own = kept.get();
  const isOther = error instanceof Fault && error.type === 'PolicyVersionMismatch';
  const mayPass = error instanceof Fault && error.retryable && !isOther && !signal.aborted;
  const failures = (own?.failures ?? 0) + 1;
  if (load !== null && mayPass && failures < MOST_FAILURES && commonMs() < paused_until) {
    kept.set({ paused_until, is_half: false, ...own, failures });
    return error;
  }
  const fault = error instanceof Error ? error.message : String(error);
  const cut = { why: fault, closes: false, paused_until, signal: AbortSignal.timeout(CUT_MS) };
  const isHalf = isOther || own?.is_half === true || (isAsleep && load !== null);
  const outcome = isHalf
    ? await halfLoaded(control, cut)
    : // One that does not wake is tried again.
      load === null
      ? { state: 'unknown' as const, fault }
      : await released(control, fault);
  await changeFound(work, (now) =>
    withReplica(now, { ...outcome, replica, away_since: commonMs() }),
  );
  return error instanceof Fault ? refused(`${replica}: ${fault}`) : error;
}
