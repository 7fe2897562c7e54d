import { z } from 'zod';
import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault, faultWith } from '../../model/faults.js';
import type { Weights } from '../../model/policy/publish.js';
import { baseOf, withAdapter } from '../../model/policy/adapters.js';
import type { PolicyRecord, Published } from '../../model/policy/record.js';
import { isUnchanged, withReplica } from '../../model/policy/record.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { inTransit } from '../../model/policy/ticket.js';
import type { Phase } from '../../model/workflow-safe/policy.js';
import { TRANSFER } from '../../model/workflow-safe/policy.js';
import type { Attempt, Kept } from '../attempt.js';
import type { PolicyActivities, UpdateReplica, UpdatedReplica } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import type { Admission } from './admit-joiner.js';
import { admit, asAdmitted, controlOf, examineLoaded } from './admit-joiner.js';
import type { LoadableAdapter } from './bring-adapter.js';
import { adapterTo, bringAdapter, NO_BASE, putAdapter } from './bring-adapter.js';
import { isOnlyFreed, halfLoaded, cutHalfLoaded } from './half-loaded.js';
import { viewOf } from '../../model/policy/view.js';
import { policyOf, refused } from './policy-view.js';
import { worstOf } from './probe.js';
import { pause, release } from './pause-engine.js';
import { wakeReplica, whatChanged } from './wake-replica.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import { checkFiles } from './weight-files.js';

/** How often an engine may fail within one pause. Each time the weights are loaded whole again. */
const MOST_FAILURES = 3;
/** Slower phases are shown in the workflow; faster ones cost no event. */
const SLOW_MS = 1000;

/** What an attempt leaves to the next one. */
const Checkpoint = z.object({
  paused_until: z.number(),
  failures: z.number(),
  /** A load has begun and not ended. */
  is_half: z.boolean().default(false),
});
type Checkpoint = z.infer<typeof Checkpoint>;

/** What one attempt works with. */
interface Work extends Pick<Attempt, 'signal'> {
  order: UpdateReplica;
  /** The version of its weights. */
  version: number;
  /** What is loaded on them; null: nothing. */
  adapter: LoadableAdapter | null;
  policy: PolicyService;
  control: WeightControl;
  manner: Loadable;
  /** What the engine says of its weights until they are loaded. */
  transit: string;
  /** It sleeps: its memory has to come back before its weights. */
  isAsleep: boolean;
  /** Its logprobs of fixed ids before it slept, with these weights; null: nobody knows them. */
  before: number[] | null;
  /** The replica's epoch in the record. An attempt that finds another one is outdated. */
  epoch: number;
  paused_until: number;
  /** A load of this attempt, or of one before it in the same pause, has begun and not ended. */
  isHalf: () => boolean;
  noteHalf: (is_half: boolean) => void;
}

/**
 * Takes one replica through all phases: record → pause → load → label → cache → resume → probe, and records it as
 * `current`. A later attempt starts over and loads whole again. If it fails, frozen streams are cut and the replica is
 * `unknown` or `away`; its engine is resumed, unless a load broke: then it stays paused.
 */
export function createUpdateReplica(dependencies: Dependencies): PolicyActivities['updateReplica'] {
  return (order) =>
    dependencies.attempt(async (attempt) => {
      const policy = policyOf(order.service, dependencies);
      const control = await controlOf(policy, order.replica);
      const { signal } = attempt;
      const { identity, done } = await admit(order, { policy, control, signal });
      if (done !== null) return done;
      const beginning = { policy, control, attempt, kept: attempt.keeps(Checkpoint) };
      // What an earlier attempt has paused goes through all phases.
      const isPaused = beginning.kept.get() !== null;
      const awake = isPaused ? null : await wakeReplica(order, { policy, control, signal });
      if (awake !== null) return awake;
      const beside = isPaused
        ? null
        : await bringAdapter(order, { policy, control, identity, signal });
      if (beside !== null) return beside;
      const begun = await orReleased(beginning, () => begin(order, beginning));
      if (begun === null)
        return { paused_s: 0, load_s: 0, view: viewOf(await policy.records.latest()) };
      const work = { ...begun, identity };
      try {
        return await takeThrough(work);
      } catch (error) {
        throw await afterFailure(error, { work, ...beginning });
      }
    });
}

const QUESTION_MS = 10_000;

/** A replica that is to be restored may be away. It is waited for without being touched; an update does not wait. */
async function checkIsThere(
  control: WeightControl,
  { order, policy, attempt }: { order: UpdateReplica; policy: PolicyService; attempt: Attempt },
): Promise<void> {
  if (order.version !== null) return;
  const entry = (await policy.records.latest())?.replicas[order.replica];
  if (entry === undefined || (entry.state !== 'away' && entry.state !== 'unknown')) return;
  const needs = { cache: 'keep' as const, sleep: entry.slept === null ? null : ('ours' as const) };
  const bound = { within_ms: QUESTION_MS, signal: attempt.signal };
  const { lacks } = await control.examine(needs, bound);
  if (lacks.length > 0) throw refused(`${order.replica} lacks ${lacks.join(', ')}`);
  // Nothing is paused behind a balancer: nobody would know which of its engines.
  await control.asOne({ starts: true }, bound);
}

interface Beginning {
  policy: PolicyService;
  control: WeightControl;
  attempt: Attempt;
  /** The pause that this attempt, or one before it, has begun. */
  kept: Kept<Checkpoint>;
}

/** null: nothing is left to do. */
async function begin(order: UpdateReplica, beginning: Beginning): Promise<Work | null> {
  if (await isOnlyFreed(order, beginning)) return null;
  await checkIsThere(beginning.control, { order, ...beginning });
  return await recordPause(order, beginning);
}

/**
 * Without the record no phase can begin, and the pause of an earlier attempt must end all the same. The next attempt
 * begins a new one.
 */
async function orReleased<T>({ control, kept }: Beginning, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    const own = kept.get();
    const isOver = own !== null && own.paused_until < commonMs();
    if (isOver && isStoreFault(error) && (await release(control))) kept.set(null);
    throw error;
  }
}

const isStoreFault = (error: unknown): boolean =>
  error instanceof Fault && error.type === 'StoreFault';

/** Phase `record`: from here on the replica gets no requests, and what it samples is fenced. */
async function recordPause(
  order: UpdateReplica,
  { policy, control, attempt, kept }: Beginning,
): Promise<Work> {
  const { replica } = order;
  const before = await policy.records.latest();
  const wanted = order.version ?? before?.version ?? -1;
  const adapter = adapterTo(before, wanted);
  const version = adapter === null ? wanted : (adapter.base ?? -1);
  const entry = before?.replicas[replica];
  const own = kept.get();
  const left = entry?.state === 'updating' ? entry.paused_until : null;
  // An abandoned pause is ended before this one begins.
  const isAbandoned = own === null && left !== null && left < commonMs();
  if (isAbandoned) await release(control);
  const manner = mannerOf(before, version);
  const fresh = commonMs() + toMs(manner.pause_limit);
  const paused_until = own?.paused_until ?? (isAbandoned ? fresh : (left ?? fresh));
  const noted = { paused_until, failures: 0, is_half: false, ...own };
  kept.set({ ...noted, paused_until });
  const record = await policy.records.change((now) => {
    mannerOf(now, wanted);
    mannerOf(now, version);
    return now && withReplica(now, { replica, state: 'updating', paused_until });
  });
  const epoch = record?.replicas[replica]?.epoch ?? -1;
  const transit = inTransit(version, record?.writer ?? '');
  const slept = record?.replicas[replica]?.slept ?? null;
  const isSame = entry !== undefined && baseOf(entry) === version;
  const beforeSleep = isSame ? (slept?.before ?? null) : null;
  return {
    isAsleep: slept !== null,
    before: beforeSleep,
    order,
    version,
    adapter,
    policy,
    control,
    manner,
    transit,
    epoch,
    paused_until,
    isHalf: () => kept.get()?.is_half === true,
    // The next attempt has to know it.
    noteHalf: (is_half) => {
      kept.set({ ...noted, ...kept.get(), is_half });
    },
    signal: attempt.signal,
  };
}

/** Weights that are neither the record's version nor its target count as unpublished. */
function mannerOf(record: PolicyRecord | null, version: number): Loadable {
  if (version < 0) throw refused(NO_BASE);
  const manner = record?.weights[version];
  if (manner === undefined)
    throw refused(`version ${version} has been overtaken by ${record?.target ?? 'none'}`);
  const { weights } = manner;
  if (weights.kind !== TRANSFER) return { ...manner, weights };
  throw refused(`there are no files of version ${version}: attach some, or begin the next version`);
}

type Loadable = Published & { weights: Weights };

async function takeThrough(work: Work & Pick<Admission, 'identity'>): Promise<UpdatedReplica> {
  const { control, manner, order, adapter } = work;
  const inPhase = phases(work);
  const bound = (): Bound => ({ within_ms: work.paused_until - commonMs(), signal: work.signal });
  await inPhase('load', () => checkFiles(work.version, manner));
  const began = performance.now();
  if (work.isAsleep) await inPhase('wake', () => giveMemory(work, bound()));
  await inPhase('pause', () => pause(work));
  await inPhase('label', () => control.label(work.transit, bound()));
  const pausing = performance.now();
  await inPhase('load', async () => {
    work.noteHalf(true);
    await control.load(manner.weights, bound());
    work.noteHalf(false);
    await checkFiles(work.version, manner);
  });
  const load_s = (performance.now() - pausing) / 1000;
  await inPhase('label', () => control.label(String(work.version), bound()));
  if (work.isAsleep) await inPhase('wake', () => control.wakeUp(null, bound()));
  if (manner.cache === 'reset') await inPhase('cache', () => control.resetCache(bound()));
  await inPhase('resume', () => control.resume(bound()));
  const paused_s = (performance.now() - began) / 1000;
  await inPhase('probe', () => probe(work, bound()));
  if (adapter !== null)
    await inPhase('adapter', () =>
      putAdapter(adapter, { control, service: order.service, keeps: [], bound }),
    );
  const { replica } = order;
  const identity = await examineLoaded(work.identity, work);
  const record = await work.policy.records.change((now) => {
    checkOurs(now, work);
    const next = now && withReplica(now, { replica, state: 'current', version: work.version });
    const whole =
      next && adapter !== null ? withAdapter(next, { replica, adapter, keep_adapters: 1 }) : next;
    return whole && asAdmitted(whole, { replica, identity });
  });
  return { paused_s, load_s, view: viewOf(record) };
}

/** For weights alone. What a transfer has left in it is closed only then. */
async function giveMemory({ control, signal }: Work, bound: Bound): Promise<void> {
  await control.wakeUp('weights', bound);
  await cutHalfLoaded(control, { signal });
}

/** Runs a phase if it is still this attempt's, within the pause; names the phase that failed. */
function phases(work: Work) {
  const { policy, order, paused_until, signal } = work;
  return async (phase: Phase, run: () => Promise<void>): Promise<void> => {
    signal.throwIfAborted();
    checkOurs(await policy.records.latest(), work);
    if (commonMs() >= paused_until) throw refused(`${phase}: pause_limit is over`);
    const slow = setTimeout(() => {
      void policy.sayPhase({ replica: order.replica, phase });
    }, SLOW_MS);
    try {
      await run();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // The message begins with the replica.
      const what = error.message.replace(`${order.replica}: `, '');
      throw faultWith(error, { message: `${phase}: ${what}` });
    } finally {
      clearTimeout(slow);
    }
  };
}

function checkOurs(record: PolicyRecord | null, { order: { replica }, epoch }: Work): void {
  if (isUnchanged(record, { replica, epoch })) return;
  const message = `another attempt has taken ${replica} over`;
  throw new Fault({ type: 'StoreFault', message });
}

/** Asks a running engine: a paused one does not answer. */
async function probe({ control, manner, before }: Work, bound: Bound): Promise<void> {
  const changed = await whatChanged(before, { control, ...bound });
  if (changed !== null) throw refused(changed);
  if (manner.probe === null) return;
  const got = await control.promptLogprobs(manner.probe.prompt_ids, bound);
  const worst = worstOf(got, manner.probe);
  if (worst !== null) throw refused(worst);
}

/** For cutting an engine off, also after the attempt's own signal has ended. */
const CUT_MS = 30_000;

async function afterFailure(
  error: unknown,
  { work, attempt, kept }: { work: Work } & Pick<Beginning, 'attempt' | 'kept'>,
): Promise<unknown> {
  const { order, policy, control, paused_until } = work;
  if (isStoreFault(error)) {
    // Nobody else ends the pause of an engine that has left meanwhile.
    if (policy.records.known()?.replicas[order.replica] === undefined) await release(control);
    return error;
  }
  const own = kept.get();
  const failures = (own?.failures ?? 0) + 1;
  const mayPass = error instanceof Fault && error.retryable && commonMs() < paused_until;
  if (mayPass && failures < MOST_FAILURES && !attempt.signal.aborted) {
    kept.set({ paused_until, is_half: false, ...own, failures });
    return error;
  }
  const message = error instanceof Error ? error.message : String(error);
  const outcome =
    work.isHalf() || work.isAsleep
      ? await halfLoaded(control, {
          why: message,
          closes: false,
          paused_until,
          signal: AbortSignal.timeout(CUT_MS),
        })
      : {
          state: (await release(control)) ? ('unknown' as const) : ('away' as const),
          fault: message,
        };
  await policy.records.change((now) =>
    now !== null && isUnchanged(now, { replica: order.replica, epoch: work.epoch })
      ? withReplica(now, { replica: order.replica, ...outcome, away_since: commonMs() })
      : null,
  );
  return error instanceof Fault ? refused(`${order.replica}: ${message}`) : error;
}
