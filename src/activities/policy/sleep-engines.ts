import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { AGREED_IDS } from '../../model/policy/agreement.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { firstRecord, withReplica, withReplicas } from '../../model/policy/record.js';
import type { Slept, Sleeping } from '../../model/policy/sleep.js';
import { Sleep, Wake } from '../../model/policy/sleep.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import { refusalOfHolder } from '../../model/policy/holding.js';
import {
  refusalOfSleep,
  sleepersOf,
  withoutSleep,
  withSleepers,
  TO_BE_WOKEN,
  repairOf,
} from '../../model/policy/sleepers.js';
import { inTransit } from '../../model/policy/ticket.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import type { Answers } from './ask-all.js';
import { askSome, faultsOf, textsOf, twice } from './ask-all.js';
import { lackOf } from './engine-abilities.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, knownControl, policyOf, refused } from './policy-view.js';
import type { TicketEngine } from '../../model/policy/ticket.js';
import type { Outcome } from '../../model/policy/tickets.js';
import { labelBack } from './half-loaded.js';

const QUESTION_MS = 10_000;
/** Tens of gigabytes are copied to the memory of the host. */
const SLEEP_MS = 300_000;

/**
 * Puts engines to sleep: the record says so first, then their streams are cut, whose tokens are in the journals. One that
 * does not answer is away, and uses no memory. If one cannot sleep, all are woken, and the update fails.
 */
export function createSleepEngines(dependencies: Dependencies): PolicyActivities['sleepEngines'] {
  return ({ service, nonce, sleep: input, heard }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const asked = inputOf('sleep', { schema: Sleep, input });
      const before = await policy.records.latest();
      const record =
        before?.sleep?.nonce === nonce
          ? before
          : await recordSleep(policy, { asked, nonce, heard, signal });
      const sleep = record?.sleep ?? null;
      if (record === null || sleep?.nonce !== nonce)
        throw refused('sleep: another update was first');
      const faults = await layDown(policy, { record, sleep, signal });
      if (Object.keys(faults).length === 0) return viewOf(await policy.records.latest());
      await policy.records.change((now) =>
        now?.sleep?.nonce === nonce ? withoutSleep(now, 'another engine could not sleep') : null,
      );
      throw refused(
        `not every engine could be put to sleep, so all are woken: ${textOfFaults(faults)}`,
      );
    });
}

interface AskedSleep {
  asked: Sleep;
  nonce: string;
  heard: Heard | undefined;
  signal: AbortSignal;
}

/** Asks everything that can be known before an engine is touched. */
async function recordSleep(
  policy: PolicyService,
  { asked, nonce, heard, signal }: AskedSleep,
): Promise<PolicyRecord | null> {
  const earlier = await policy.records.latest();
  check(earlier, { asked, heard });
  const { answers, away } = await askEngines(policy, {
    record: earlier,
    level: asked.level,
    signal,
  });
  const slept = Object.fromEntries(answers.map(({ replica, answer }) => [replica, answer]));
  return await policy.records.change((before) => {
    check(before, { asked, heard });
    const known = withReplicas(before ?? firstRecord(policy.urls), policy.urls);
    const seen = Object.entries(away).reduce((next, [replica, fault]) => {
      const entry = next.replicas[replica];
      const isKnown = entry === undefined || entry.needs !== null || entry.state === 'away';
      return isKnown
        ? next
        : withReplica(next, { replica, state: 'away', fault, away_since: commonMs() });
    }, known);
    const until = commonMs() + toMs(asked.until);
    const { level, holder } = asked;
    return withSleepers(seen, { sleep: { nonce, holder, level, until }, slept });
  });
}

function check(
  record: PolicyRecord | null,
  { asked, heard }: Pick<AskedSleep, 'asked' | 'heard'>,
): void {
  const asking = { holder: asked.holder, heard, now: commonMs() };
  const refusal = refusalOfSleep(record, asked) ?? refusalOfHolder(record, asking);
  if (refusal !== null) throw refused(refusal);
}

interface Asking {
  record: PolicyRecord | null;
  level: Slept['level'];
  signal: AbortSignal;
}

const askEngines = (
  policy: PolicyService,
  { record, level, signal }: Asking,
): Promise<Answers<Slept>> => {
  const meant = policy.controls.filter(({ replica }) => {
    const entry = record?.replicas[replica];
    return entry === undefined || (entry.examined && entry.draining_until === null);
  });
  const ask = (control: WeightControl) =>
    twice(() => askEngine(control, { record, level, signal }));
  return askSome(meant, { ask, signal });
};

async function askEngine(
  control: WeightControl,
  { record, level, signal }: Asking,
): Promise<Slept> {
  const { replica: url } = control;
  const bound: Bound = { within_ms: QUESTION_MS, signal };
  const entry = record?.replicas[url];
  const sleep = entry?.slept == null ? ('able' as const) : ('ours' as const);
  const { lacks } = await control.examine({ cache: 'reset', sleep }, bound);
  if (lacks.length > 0) throw refused(lackOf(url, { lacks, kind: 'checkpoint' }));
  const [label, { sleep_mode }] = await Promise.all([control.said(bound), control.settings(bound)]);
  if (sleep_mode === false)
    throw refused(`${url} was started without a way to sleep (vLLM: --enable-sleep-mode)`);
  // Nothing that computes reaches an engine whose weights are not known to be whole.
  const serves = record !== null && entry?.state === 'current';
  const before = serves ? await control.promptLogprobs(AGREED_IDS, bound) : null;
  return { level, label, before };
}

/** Returns why an engine that is there does not sleep, by URL. */
async function layDown(
  policy: PolicyService,
  { record, sleep, signal }: { record: PolicyRecord; sleep: Sleeping; signal: AbortSignal },
): Promise<Record<string, string>> {
  const run = async ({ url }: { url: string }): Promise<void> => {
    const control = knownControl(policy, url);
    if (control === undefined) return;
    try {
      await putToSleep(control, { sleep, version: record.version, signal });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // One that is gone needs no memory. It is found away when it is to be woken.
      if (await control.isUp({ within_ms: QUESTION_MS, signal }).catch(() => false)) throw error;
    }
  };
  return textsOf(await faultsOf(sleepersOf(record), { run, signal }));
}

/** Its streams are cut. Weights that are to be dropped lose their label first. */
async function putToSleep(
  control: WeightControl,
  {
    sleep: { level, nonce },
    version,
    signal,
  }: { sleep: Pick<Sleeping, 'level' | 'nonce'>; version: number | null; signal: AbortSignal },
): Promise<void> {
  const bound = { within_ms: QUESTION_MS, signal };
  await control.cutOff(bound);
  if (level === 2) await control.label(inTransit(version ?? 0, nonce), bound);
  await control.sleep(level, { within_ms: SLEEP_MS, signal });
}

/**
 * The outcome for an engine that a transfer has taken out of its sleep, and that is not to serve: it sleeps again, or has
 * to be woken where its time is over. null: it did not sleep, or cannot.
 */
export async function sleptAgain(
  control: WeightControl,
  {
    record,
    was,
    transit,
    isTouched,
    signal,
  }: {
    record: PolicyRecord | null;
    was: TicketEngine['was'];
    transit: string;
    isTouched: boolean;
    signal: AbortSignal;
  },
): Promise<Outcome | null> {
  const slept = record?.replicas[control.replica]?.slept ?? null;
  if (record === null || slept === null) return null;
  const needs = isTouched ? 'load' : was.needs;
  const bound = { within_ms: QUESTION_MS, signal };
  try {
    if (isTouched) await control.closeTransfer(bound);
    else if (slept.level === 1) await labelBack(control, { was, transit, ...bound });
    if (record.sleep === null) return { state: 'unknown', needs, fault: TO_BE_WOKEN };
    await putToSleep(control, { sleep: record.sleep, version: record.version, signal });
    return { state: 'asleep', needs };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault) || error.type === 'StoreFault') throw error;
    return null;
  }
}

const WAKE_MS = 300_000;

/** Ends a sleep in the record; engines are then woken as they are restored. Or gives them memory for weights alone. */
export function createWakeEngines(dependencies: Dependencies): PolicyActivities['wakeEngines'] {
  return ({ service, ...given }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const { tags } =
        'why' in given ? { tags: null } : inputOf('wake', { schema: Wake, input: given.wake });
      if (tags?.every((tag) => tag === 'weights') === true) {
        await giveMemory(policy, signal);
        return { repair: null, view: viewOf(await policy.records.latest()) };
      }
      const record = await policy.records.change((now) => {
        if (now === null || now.sleep === null) return null;
        // Another `sleep` may have extended the time.
        if ('nonce' in given && now.sleep.nonce !== given.nonce) return null;
        return withoutSleep(now, 'why' in given ? given.why : '`wake`');
      });
      return { repair: repairOf(record, { version: record?.target }), view: viewOf(record) };
    });
}

async function giveMemory(policy: PolicyService, signal: AbortSignal): Promise<void> {
  const record = await policy.records.latest();
  const run = async ({ url }: { url: string }): Promise<void> => {
    await knownControl(policy, url)?.wakeUp('weights', { within_ms: WAKE_MS, signal });
  };
  const faults = textsOf(
    await faultsOf(record === null ? [] : sleepersOf(record), { run, signal }),
  );
  if (Object.keys(faults).length > 0) throw refused(textOfFaults(faults));
}
