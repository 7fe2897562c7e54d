import { createHash } from 'node:crypto';
import type { WeightControl } from '../../generation/weight-control.js';
import type { Fault } from '../../model/faults.js';
import { isUnavailable } from '../../model/faults.js';
import { baseOf } from '../../model/policy/adapters.js';
import { AGREED_IDS } from '../../model/policy/agreement.js';
import { refusalOfHolder, withHolder } from '../../model/policy/holding.js';
import { Begin } from '../../model/policy/orders.js';
import type {
  EngineIdentity,
  PolicyRecord,
  ReplicaChange,
  Ticket,
  TicketEngine,
} from '../../model/policy/record.js';
import { fieldsOf, firstRecord, inTransit, sleptOf, withEach } from '../../model/policy/record.js';
import { identityProblem, withReplicas } from '../../model/policy/replicas.js';
import { refusalWhileAsleep } from '../../model/policy/sleepers.js';
import {
  ended,
  needsInit,
  neededGroups,
  opened,
  placed,
  refusalOfBegin,
  versionOf,
  wholeGroups,
  withOutcomes,
} from '../../model/policy/tickets.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { BeginAnswer } from '../contract/policy.js';
import type { PolicyService } from '../dependencies.js';
import {
  askAll,
  checkCache,
  checkOneUrlEach,
  checkRoutes,
  faultsOf,
  QUESTION_MS,
  remedyOf,
  textsOf,
} from './ask.js';
import { checkLabel, cutHalfLoaded } from './engine.js';
import type { OnTicket } from './end-transfer.js';
import { engineOf, letGo } from './end-transfer.js';
import { examineJoiner, withIdentityOf } from './joiner.js';
import type { Order, Ordering } from './policy-service.js';
import { check, inputOf, knownControl, refused } from './policy-service.js';
import { lookAt } from './weight-files.js';

/** For one call to an engine that is there. */
const CALL_MS = 30_000;
const FIRST_QUESTION_MS = 2000;

/**
 * Pauses the engines for a trainer: all are `updating` in the record, then paused, each with a label in transit.
 * Those that cannot be paused go back to what they served. Below the quorum all do, and the update fails.
 */
export const begin: Order = async (input, ordering) => {
  const { policy, nonce, signal } = ordering;
  const given = inputOf('begin', { schema: Begin, input });
  const ticket = ticketOf(await policy.records.latest(), nonce) ?? (await open(given, ordering));
  const on = { ...ordering, ticket };
  const run = (engine: TicketEngine): Promise<void> => pauseOne(engine, on);
  const faults = await faultsOf(ticket.engines, { run, signal });
  const record = await keepPaused(on, faults);
  const kept = ticketOf(record, nonce);
  if (record === null || kept === null)
    throw refused(
      `fewer engines than the quorum could be paused: ${textOfFaults(textsOf(faults))}`,
    );
  return { record, begun: answerOf(kept, { policy, record }) };
};

const ticketOf = (record: PolicyRecord | null, nonce: string): Ticket | null =>
  record?.transfers.open?.nonce === nonce ? record.transfers.open : null;

/** Asks everything that can be known before an engine is touched, then records the ticket. */
async function open(begin: Begin, { policy, nonce, heard, signal }: Ordering): Promise<Ticket> {
  const asking = () => ({ ...begin, heard, now: commonMs() });
  const refusalOf = (record: PolicyRecord | null): string | null =>
    refusalOfBegin(record, begin) ??
    refusalWhileAsleep(record, begin.holder) ??
    refusalOfHolder(record, asking());
  const earlier = await policy.records.latest();
  check(refusalOf(earlier));
  const files = begin.checkpoint === null ? null : (await lookAt(begin.checkpoint)).files;
  const seen = await askEngines(policy, { begin, record: earlier, signal });
  const record = await policy.records.change((before) => {
    check(refusalOf(before));
    const { urls } = policy;
    const known = withEach(withReplicas(before ?? firstRecord(urls), urls), seen.absent);
    // An engine that has left while it was asked is not in the ticket.
    const engines = seen.engines.filter(({ url }) => known.replicas[url] !== undefined);
    const ticket = ticketFor(known, { begin, nonce, engines });
    const has = new Set(ticket.engines.map(({ group }) => group)).size;
    if (has === 0 || has < (begin.quorum ?? 0)) {
      const absent = Object.entries(seen.absent).map(([url, { fault }]) => [url, fault]);
      const away = textOfFaults(Object.fromEntries(absent) as Record<string, string>);
      throw refused(
        `expected ${begin.quorum ?? 'at least 1'} groups of engines that answer, got ${has}${away === '' ? '' : `: ${away}`}`,
      );
    }
    const told = seen.identity === null ? known : withIdentityOf(known, seen.identity);
    const held = withHolder(told, { ...asking(), version: ticket.version, anew: true });
    return opened(held, { ticket, begin, files });
  });
  const ticket = ticketOf(record, nonce);
  if (ticket === null) throw refused('another begin was first');
  return ticket;
}

/** What engines say before a transfer touches them. */
interface Seen {
  engines: SeenEngine[];
  /** Engines that are left out. They serve nothing, because they would serve the version before. */
  absent: Record<string, { state: 'away' | 'unknown'; fault: string }>;
  /** The identity of joiners among them; null: there are none. */
  identity: EngineIdentity | null;
}

interface SeenEngine {
  url: string;
  label: string | null;
  world_size: number;
  backend: string | null;
  before: number[] | null;
}

interface Asking {
  begin: Begin;
  record: PolicyRecord | null;
  signal: AbortSignal;
}

/**
 * A server that cannot be paused refuses the whole update. One that does not answer is left out, as is a joiner that is
 * not what the others are. A trainer's own engines join with its job: nothing but its transfer gives them weights.
 */
async function askEngines(policy: PolicyService, asking: Asking): Promise<Seen> {
  const { record, signal } = asking;
  let identity: EngineIdentity | null = null;
  const isJoiner = (url: string): boolean => record?.replicas[url]?.examined === false;
  const ask = async (control: WeightControl): Promise<SeenEngine> => {
    if (isJoiner(control.replica)) {
      const own = await examineJoiner(policy, { control, signal });
      // Joiners beside nothing else are compared with each other.
      const problem = identity === null ? null : identityProblem(own, identity);
      if (problem !== null) throw refused(`${control.replica}: ${problem}`);
      identity = own;
    }
    return await askEngine(control, asking);
  };
  const controls = meant(policy, asking);
  const { answers, away } = await askAll(controls, { ask, signal, mayRefuse: isJoiner });
  const there = controls.filter(({ replica }) => away[replica] === undefined);
  await checkOneUrlEach(there, { within_ms: QUESTION_MS, signal });
  const bound = { within_ms: FIRST_QUESTION_MS, signal };
  // An engine that hangs answers this question alone, and keeps its needs.
  const hangs = async (url: string): Promise<boolean> =>
    (await knownControl(policy, url)
      ?.isUp(bound)
      .catch(() => false)) === true;
  const absent = await Promise.all(
    Object.entries(away).map(async ([url, fault]) => {
      const state = isUnavailable(fault) && (await hangs(url)) ? 'unknown' : 'away';
      return [url, { state, fault: fault.message }] as const;
    }),
  );
  const engines = answers.map(([, answer]) => answer);
  return { engines, absent: Object.fromEntries(absent), identity };
}

function meant(policy: PolicyService, { begin: { only, base }, record }: Asking): WeightControl[] {
  const controls = policy.controls();
  const urls = controls.map(({ replica }) => replica);
  const foreign = only?.find((url) => !urls.includes(url));
  if (foreign !== undefined)
    throw refused(
      `only: expected URLs of the service (${urls.join(', ')}), got ${JSON.stringify(foreign)}`,
    );
  return controls.filter(({ replica }) => {
    const entry = record?.replicas[replica];
    const hasBase = entry?.state === 'current' && baseOf(entry) === base;
    if (entry !== undefined && entry.draining_until !== null) return false;
    return (only?.includes(replica) ?? true) && (base === null || hasBase);
  });
}

async function askEngine(
  control: WeightControl,
  { begin, record, signal }: Asking,
): Promise<SeenEngine> {
  const { replica: url } = control;
  await control.paused({ within_ms: FIRST_QUESTION_MS, signal });
  const bound = { within_ms: QUESTION_MS, signal };
  const entry = record?.replicas[url];
  const sleep = sleptOf(record, url) === null ? null : 'ours';
  const { lacks, tells_label } = await control.examine({ cache: begin.cache, sleep }, bound);
  checkRoutes(control, { lacks: tells_label ? lacks : [...lacks, '/weight_info'] });
  const [label, { backend, cache_dtype }, world_size] = await Promise.all([
    control.asOne({ starts: true }, bound),
    control.settings(bound),
    control.worldSize(bound),
  ]);
  const hasNone = backend === 'none';
  if (hasNone && begin.code === 'ours')
    throw refused(
      `${url} was started without a transfer of weights (${remedyOf(control, 'sent')}); code: "trainer" needs none`,
    );
  checkCache(url, { cache: begin.cache, cache_dtype });
  // Nothing that computes reaches an engine with other weights than the record's.
  const isAsked = (entry === undefined || entry.state === 'current') && begin.probe === 'agree';
  const before = isAsked ? await control.promptLogprobs(AGREED_IDS, bound) : null;
  return { url, label, world_size, backend: hasNone ? null : backend, before };
}

const UNKNOWN = { state: 'unknown' as const, needs: null };

function ticketFor(
  record: PolicyRecord,
  { begin, nonce, engines: seen }: { begin: Begin; nonce: string } & Pick<Seen, 'engines'>,
): Ticket {
  const { open: before } = record.transfers;
  const engines = placed(seen, begin.groups).map(({ url, label, ...engine }) => {
    const entry = record.replicas[url];
    const { state, needs } = entry === undefined ? UNKNOWN : fieldsOf(entry);
    // One of a ticket before this one may have a part of its weights.
    const isHalf = state === 'updating' || before?.engines.some((one) => one.url === url) === true;
    const was = isHalf ? { ...UNKNOWN, needs: 'load' as const } : { state, needs };
    return { ...engine, url, was: { ...was, label }, left: false };
  });
  const places = engines.map((one) => [one.url, one.group, one.world_size, one.rank_offset]);
  const began_at = commonMs();
  return {
    ...begin,
    nonce,
    version: versionOf(record, begin),
    began_at,
    paused_until: began_at + toMs(begin.pause_limit),
    fleet: createHash('sha256').update(JSON.stringify(places)).digest('hex').slice(0, 16),
    engines,
    finishing: false,
  };
}

async function pauseOne({ url, was }: TicketEngine, on: OnTicket): Promise<void> {
  const { ticket, policy, signal } = on;
  const { mode, cache, code, version, nonce } = ticket;
  const control = engineOf(url, on);
  const bound = { within_ms: CALL_MS, signal };
  if (sleptOf(policy.records.known(), url) !== null) await control.wakeUp('weights', bound);
  if (was.state !== 'current') {
    const reach = await cutHalfLoaded(control, { signal, closes: code === 'ours' });
    if (reach !== 'answers')
      throw refused(reach === 'hangs' ? 'it waits inside a transfer' : 'it does not answer');
  }
  await control.pause({ mode, cache }, bound);
  const transit = inTransit(version, nonce);
  await control.label(transit, bound);
  // Another process behind the URL does not have the label.
  const said = await control.asOne({ starts: false }, bound);
  if (said !== null) checkLabel(said, { expected: [transit] });
}

/** The record without those that could not be paused; without the ticket if they were too many. */
async function keepPaused(
  on: OnTicket,
  faults: Record<string, Fault>,
): Promise<PolicyRecord | null> {
  const { ticket, policy } = on;
  if (Object.keys(faults).length === 0) return await policy.records.latest();
  const whole = wholeGroups(ticket.engines, (url) => faults[url] === undefined);
  const needed = neededGroups(ticket, { isAway: () => false });
  const isEnough = whole.length > 0 && whole.length >= needed;
  const engines = ticket.engines.filter(({ group }) => !isEnough || !whole.includes(group));
  const how = { engines, why: 'it could not be paused', isTouched: () => false };
  const given = Object.entries(await letGo(on, how));
  const outcomes = Object.fromEntries(
    given.map(([url, one]) => [url, afterPause(one, faults[url] ?? null)]),
  );
  return await policy.records.change((now) => {
    const open = ticketOf(now, ticket.nonce);
    if (now === null || open === null) return null;
    if (!isEnough)
      return ended(now, { outcomes, why: 'did not reach its quorum', is_whole: false });
    const left = withOutcomes(now, outcomes);
    const paused = open.engines.filter(({ group }) => whole.includes(group));
    return { ...left, transfers: { ...left.transfers, open: { ...open, engines: paused } } };
  });
}

/** An engine may still do what it has not answered, and be paused after it was resumed: it gets its weights whole. */
function afterPause(outcome: ReplicaChange, fault: Fault | null): ReplicaChange {
  if (fault === null) return outcome;
  const isSilent = fault.type === 'GenerationUnavailable' && fault.status === null;
  if (outcome.state === 'current' && !isSilent) return outcome;
  const state = outcome.state === 'current' ? 'unknown' : outcome.state;
  return { ...outcome, state, fault: fault.message };
}

const answerOf = (
  { nonce, version, engines, fleet }: Ticket,
  { policy, record }: { policy: PolicyService; record: PolicyRecord },
): BeginAnswer => ({
  ticket: nonce,
  version,
  engines: engines.map(({ url, world_size, rank_offset, group, backend }) => ({
    url,
    control_url: knownControl(policy, url)?.control_url ?? url,
    instance: record.replicas[url]?.instance ?? null,
    world_size,
    rank_offset,
    group,
    backend,
  })),
  fleet,
  init: needsInit(record.transfers, fleet),
});
