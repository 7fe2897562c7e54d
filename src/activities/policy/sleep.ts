import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault, isStoreFault } from '../../model/faults.js';
import { AGREED_IDS } from '../../model/policy/agreement.js';
import { refusalOfHolder } from '../../model/policy/holding.js';
import { Sleep, Wake } from '../../model/policy/orders.js';
import type {
  PolicyRecord,
  ReplicaChange,
  Slept,
  Sleeping,
  TicketEngine,
} from '../../model/policy/record.js';
import {
  fieldsOf,
  firstRecord,
  inTransit,
  sleptOf,
  withReplica,
} from '../../model/policy/record.js';
import { isMeant, withReplicas } from '../../model/policy/replicas.js';
import {
  refusalOfSleep,
  sleepersOf,
  TO_BE_WOKEN,
  withoutSleep,
  withSleepers,
} from '../../model/policy/sleepers.js';
import { viewOf } from '../../model/policy/view.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { isKept, textOfFaults } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import { askSome, checkRoutes, faultsOf, QUESTION_MS, remedyOf, textsOf } from './ask.js';
import { labelBack } from './engine.js';
import type { Order, Ordering } from './policy-service.js';
import { bringingOf, check, inputOf, knownControl, refused, repairing } from './policy-service.js';

/** Tens of gigabytes are copied to the memory of the host, or back. */
const COPY_MS = 300_000;

/**
 * Puts engines to sleep: the record says so first, then their streams are cut, whose tokens are in the journals. One that
 * does not answer is away, and uses no memory. If one cannot sleep, all are woken, and the update fails.
 */
export const sleep: Order = async (input, ordering) => {
  const { policy, nonce } = ordering;
  const asked = inputOf('sleep', { schema: Sleep, input });
  const before = await policy.records.latest();
  const record = before?.sleep?.nonce === nonce ? before : await recordSleep(asked, ordering);
  const sleeping = record?.sleep ?? null;
  if (record === null || sleeping?.nonce !== nonce)
    throw refused('sleep: another update was first');
  const faults = await layDown(record, { sleeping, ordering });
  if (Object.keys(faults).length === 0) return { record: await policy.records.latest() };
  await policy.records.change((now) =>
    now?.sleep?.nonce === nonce ? withoutSleep(now, 'another engine could not sleep') : null,
  );
  throw refused(
    `not every engine could be put to sleep, so all are woken: ${textOfFaults(faults)}`,
  );
};

/** Asks everything that can be known before an engine is touched. */
async function recordSleep(
  asked: Sleep,
  { policy, nonce, heard, signal }: Ordering,
): Promise<PolicyRecord | null> {
  const { level, holder } = asked;
  const refusalOf = (record: PolicyRecord | null): string | null =>
    refusalOfSleep(record, asked) ?? refusalOfHolder(record, { holder, heard, now: commonMs() });
  const earlier = await policy.records.latest();
  check(refusalOf(earlier));
  const meant = policy.controls().filter(({ replica }) => isMeant(earlier, replica));
  const ask = (control: WeightControl) => sleepOf(control, { record: earlier, level, signal });
  const { answers, away } = await askSome(meant, { ask, signal });
  return await policy.records.change((before) => {
    check(refusalOf(before));
    const known = withReplicas(before ?? firstRecord(policy.urls), policy.urls);
    const seen = Object.entries(away).reduce((next, [replica, { message: fault }]) => {
      const entry = next.replicas[replica];
      const isKnown =
        entry === undefined || entry.state === 'away' || fieldsOf(entry).needs !== null;
      return isKnown
        ? next
        : withReplica(next, { replica, state: 'away', fault, away_since: commonMs() });
    }, known);
    const sleep = { nonce, holder, level, until: commonMs() + toMs(asked.until) };
    return withSleepers(seen, { sleep, slept: Object.fromEntries(answers) });
  });
}

async function sleepOf(
  control: WeightControl,
  {
    record,
    level,
    signal,
  }: Pick<Slept, 'level'> & { record: PolicyRecord | null; signal: AbortSignal },
): Promise<Slept> {
  const { replica: url } = control;
  const bound: Bound = { within_ms: QUESTION_MS, signal };
  const entry = record?.replicas[url];
  const sleep = sleptOf(record, url) === null ? 'able' : 'ours';
  const { lacks } = await control.examine({ cache: 'reset', sleep }, bound);
  checkRoutes(control, { lacks });
  const [label, { sleep_levels }] = await Promise.all([
    control.said(bound),
    control.settings(bound),
  ]);
  if (sleep_levels?.includes(level) === false)
    throw refused(
      `${url} was started without a way to sleep at level ${level} (${remedyOf(control, 'sleep')})`,
    );
  // Nothing that computes reaches an engine whose weights are not known to be whole.
  const before =
    entry?.state === 'current' ? await control.promptLogprobs(AGREED_IDS, bound) : null;
  return { level, label, before };
}

/** Returns why an engine that is there does not sleep, by URL. */
async function layDown(
  record: PolicyRecord,
  { sleeping, ordering: { policy, signal } }: { sleeping: Sleeping; ordering: Ordering },
): Promise<Record<string, string>> {
  const run = async ({ url }: { url: string }): Promise<void> => {
    const control = knownControl(policy, url);
    try {
      if (control !== undefined) await putToSleep(control, { record, sleeping, signal });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // A dead engine needs no memory. It is found away when it is to be woken.
      if (await control?.isUp({ within_ms: QUESTION_MS, signal }).catch(() => false)) throw error;
    }
  };
  return textsOf(await faultsOf(sleepersOf(record), { run, signal }));
}

/** Its streams are cut. Weights that are to be dropped lose their label first. */
async function putToSleep(
  control: WeightControl,
  { record, sleeping, signal }: { record: PolicyRecord; sleeping: Sleeping; signal: AbortSignal },
): Promise<void> {
  const { level, nonce } = sleeping;
  const bound = { within_ms: QUESTION_MS, signal };
  await control.cutOff(bound);
  if (level === 2) await control.label(inTransit(record.version ?? 0, nonce), bound);
  await control.sleep(level, { within_ms: COPY_MS, signal });
}

/**
 * The outcome for an engine that a transfer has taken out of its sleep, and that is not to serve: it sleeps again, or has
 * to be woken where its time is over. null: it did not sleep, or cannot.
 */
export async function sleptAgain(
  control: WeightControl,
  left: {
    record: PolicyRecord | null;
    was: TicketEngine['was'];
    transit: string;
    isTouched: boolean;
    signal: AbortSignal;
  },
): Promise<ReplicaChange | null> {
  const { record, was, isTouched, signal } = left;
  const slept = sleptOf(record, control.replica);
  if (record === null || slept === null) return null;
  const needs = isTouched ? 'load' : was.needs;
  try {
    if (isTouched) await control.closeTransfer({ within_ms: QUESTION_MS, signal });
    else if (slept.level === 1) await labelBack(control, left);
    const { sleep: sleeping } = record;
    if (sleeping === null) return { state: 'unknown', needs, fault: TO_BE_WOKEN };
    await putToSleep(control, { record, sleeping, signal });
    return { state: 'asleep', needs };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault) || isStoreFault(error)) throw error;
    return null;
  }
}

/** Ends a sleep: its engines are brought what they lack. Or gives them memory for weights alone, and they sleep on. */
export const wake: Order = async (input, ordering) => {
  const { policy, why, nonce, signal } = ordering;
  const { tags } = inputOf('wake', { schema: Wake, input });
  if (tags?.every((tag) => tag === 'weights') === true) {
    const run = async ({ url }: { url: string }): Promise<void> => {
      await knownControl(policy, url)?.wakeUp('weights', { within_ms: COPY_MS, signal });
    };
    const sleepers = sleepersOf(await policy.records.latest());
    const faults = textsOf(await faultsOf(sleepers, { run, signal }));
    if (Object.keys(faults).length > 0) throw refused(textOfFaults(faults));
    return { record: await policy.records.latest() };
  }
  const record = await policy.records.change((now) => {
    if (now === null || now.sleep === null) return null;
    // Another `sleep` may have extended the time.
    if (why !== null && now.sleep.nonce !== nonce) return null;
    return withoutSleep(now, why ?? '`wake`');
  });
  const repaired = repairing(record, { version: record?.target });
  // If its time is over, no client waits: the replicas are restored.
  if (why !== null || repaired.brings !== undefined) return { record, ...repaired };
  const view = viewOf(record);
  const replicas = Object.entries(view.replicas).flatMap(([url, { state, slept }]) =>
    slept === undefined || state === 'asleep' || isKept(view, url) ? [] : [url],
  );
  return { record, brings: bringingOf(record, { version: null, replicas }) };
};
