import { createHash } from 'node:crypto';
import type { WeightControl } from '../../generation/weight-control.js';
import type { Fault } from '../../model/faults.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { firstRecord, withReplica, withReplicas } from '../../model/policy/record.js';
import type { Asking } from '../../model/policy/holding.js';
import { refusalOfHolder, withHolder } from '../../model/policy/holding.js';
import { refusalWhileAsleep } from '../../model/policy/sleepers.js';
import type { Ticket } from '../../model/policy/ticket.js';
import { inTransit } from '../../model/policy/ticket.js';
import type { Outcome } from '../../model/policy/tickets.js';
import {
  ended,
  needsInit,
  neededGroups,
  opened,
  placed,
  refusalOfBegin,
  versionOf,
  wholeGroups,
} from '../../model/policy/tickets.js';
import { Begin } from '../../model/policy/transfer.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { BeginAnswer, PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import { faultsOf, textsOf } from './ask-all.js';
import { withIdentityOf } from './examine-joiner.js';
import { givenBack, cutHalfLoaded } from './half-loaded.js';
import { sleptAgain } from './sleep-engines.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, knownControl, policyOf, refused } from './policy-view.js';
import type { Seen } from './transfer-engines.js';
import { askEngines } from './transfer-engines.js';
import { lookAt } from './weight-files.js';

/** For one call to an engine that is there. */
const CALL_MS = 30_000;

/**
 * Pauses the engines for a trainer: all are `updating` in the record, then paused, each with a label in transit.
 * Those that cannot be paused go back to what they served. Below the quorum all do, and the update fails.
 */
export function createBeginTransfer(dependencies: Dependencies): PolicyActivities['beginTransfer'] {
  return ({ service, nonce, begin: input, heard }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const begin = inputOf('begin', { schema: Begin, input });
      const before = await policy.records.latest();
      const ticket =
        ticketOf(before, nonce) ?? (await open(policy, { begin, nonce, heard, signal }));
      const faults = await pauseAll(policy, { ticket, signal });
      const record = await keepPaused(policy, { ticket, faults, signal });
      const kept = ticketOf(record, nonce);
      if (kept === null)
        throw refused(
          `fewer engines than the quorum could be held: ${textOfFaults(textsOf(faults))}`,
        );
      return { answer: answerOf(kept, { policy, record: before }), view: viewOf(record) };
    });
}

const ticketOf = (record: PolicyRecord | null, nonce: string): Ticket | null =>
  record?.transfers.open?.nonce === nonce ? record.transfers.open : null;

interface NewTicket {
  begin: Begin;
  nonce: string;
  heard: Asking['heard'];
  signal: AbortSignal;
}

/** Asks everything that can be known before an engine is touched, then records the ticket. */
async function open(policy: PolicyService, opening: NewTicket): Promise<Ticket> {
  const { begin, nonce, heard, signal } = opening;
  const asking = (): Asking => ({ ...begin, heard, now: commonMs() });
  const earlier = await policy.records.latest();
  check(earlier, { begin, asking: asking() });
  const files = begin.checkpoint === null ? null : (await lookAt(begin.checkpoint)).files;
  const seen = await askEngines(policy, { begin, record: earlier, signal });
  const record = await policy.records.change((before) => {
    check(before, { begin, asking: asking() });
    const { urls } = policy;
    const known = withAway(withReplicas(before ?? firstRecord(urls), urls), seen);
    const ticket = ticketFor(known, { begin, nonce, seen });
    const has = new Set(ticket.engines.map(({ group }) => group)).size;
    if (has === 0 || has < (begin.quorum ?? 0)) {
      const away = textOfFaults(seen.away);
      throw refused(
        `expected ${begin.quorum ?? 'at least 1'} groups of engines that answer, got ${has}${away === '' ? '' : `: ${away}`}`,
      );
    }
    const { identity } = seen;
    const told = identity === null ? known : withIdentityOf(known, identity);
    const { version } = ticket;
    return opened(withHolder(told, { ...asking(), version, anew: true }), { ticket, begin, files });
  });
  const ticket = ticketOf(record, nonce);
  if (ticket === null) throw refused('another begin was first');
  return ticket;
}

function check(
  record: PolicyRecord | null,
  { begin, asking }: { begin: Begin; asking: Asking },
): void {
  const refusal =
    refusalOfBegin(record, begin) ??
    refusalWhileAsleep(record, begin.holder) ??
    refusalOfHolder(record, asking);
  if (refusal !== null) throw refused(refusal);
}

/** Those that do not answer serve nothing: they would serve the version before. One that hangs keeps what it needs. */
const withAway = (record: PolicyRecord, { away, hung }: Seen): PolicyRecord =>
  Object.entries(away).reduce((next, [replica, fault]) => {
    const state = hung.includes(replica) ? 'unknown' : 'away';
    return withReplica(next, { replica, state, fault });
  }, record);

function ticketFor(
  record: PolicyRecord,
  { begin, nonce, seen }: { begin: Begin; nonce: string; seen: Seen },
): Ticket {
  const { open: before } = record.transfers;
  const engines = placed(seen.engines, begin.groups).map(({ url, label, ...engine }) => {
    const { state = 'unknown', needs = null } = record.replicas[url] ?? {};
    const isTaken = before?.engines.some((one) => one.url === url) === true;
    const was = isTaken || state === 'updating' ? HALF : { state, needs };
    return { ...engine, url, was: { ...was, label }, left: false };
  });
  const places = engines.map(({ url, group, world_size, rank_offset }) => [
    url,
    group,
    world_size,
    rank_offset,
  ]);
  const { holder, mode, cache, quorum, probe, tolerance, same, stall_limit, code, own_label } =
    begin;
  const began_at = commonMs();
  return {
    ...{ holder, mode, cache, quorum, probe, tolerance, same, stall_limit, code, own_label },
    nonce,
    version: versionOf(record, begin),
    began_at,
    paused_until: began_at + toMs(begin.pause_limit),
    fleet: createHash('sha256').update(JSON.stringify(places)).digest('hex').slice(0, 16),
    engines,
    finishing: false,
  };
}

/** An engine of a ticket before this one, which may have a part of its weights. */
const HALF = { state: 'unknown', needs: 'load' } as const;

async function pauseAll(
  policy: PolicyService,
  { ticket, signal }: { ticket: Ticket; signal: AbortSignal },
): Promise<Record<string, Fault>> {
  const run = async ({ url, was }: Ticket['engines'][number]): Promise<void> => {
    const control = knownControl(policy, url);
    if (control === undefined) throw refused('it is no replica of the service any more');
    const isAsleep = policy.records.known()?.replicas[url]?.slept != null;
    await pauseOne(control, { ticket, was, isAsleep, signal });
  };
  return await faultsOf(ticket.engines, { run, signal });
}

async function pauseOne(
  control: WeightControl,
  {
    ticket,
    was,
    isAsleep,
    signal,
  }: {
    ticket: Ticket;
    was: Ticket['engines'][number]['was'];
    isAsleep: boolean;
    signal: AbortSignal;
  },
): Promise<void> {
  const { mode, cache, code, version, nonce } = ticket;
  const bound = { within_ms: CALL_MS, signal };
  if (isAsleep) await control.wakeUp('weights', bound);
  if (was.state !== 'current') {
    const reach = await cutHalfLoaded(control, { signal, closes: code === 'ours' });
    if (reach !== 'answers')
      throw refused(reach === 'hangs' ? 'it waits inside a transfer' : 'it does not answer');
  }
  await control.pause({ mode, cache }, bound);
  const transit = inTransit(version, nonce);
  await control.label(transit, bound);
  // Another process behind the URL has not heard of it.
  const said = await control.asOne({ starts: false }, bound);
  if (said !== null && said !== transit)
    throw refused(`label: expected ${JSON.stringify(transit)}, got ${JSON.stringify(said)}`);
}

/** The record without those that could not be paused; without the ticket if they were too many. */
async function keepPaused(
  policy: PolicyService,
  {
    ticket,
    faults,
    signal,
  }: { ticket: Ticket; faults: Record<string, Fault>; signal: AbortSignal },
): Promise<PolicyRecord | null> {
  const latest = await policy.records.latest();
  const { engines } = ticket;
  if (Object.keys(faults).length === 0) return latest;
  const whole = wholeGroups(engines, (url) => faults[url] === undefined);
  const needed = neededGroups(ticket, { isAway: () => false });
  const isEnough = whole.length > 0 && whole.length >= needed;
  const back = engines.filter(({ group }) => !isEnough || !whole.includes(group));
  const outcomes: Record<string, Outcome> = {};
  await Promise.all(
    back.map(async ({ url, was }) => {
      const control = knownControl(policy, url);
      if (control === undefined) return;
      const { code, paused_until, version, nonce } = ticket;
      const before = { was, transit: inTransit(version, nonce) };
      const how = { closes: code === 'ours', paused_until, signal };
      const slept = await sleptAgain(control, {
        ...before,
        record: latest,
        isTouched: false,
        signal,
      });
      const outcome = slept ?? (await givenBack(control, { ...how, ...before }));
      outcomes[url] = afterPause(outcome, faults[url] ?? null);
    }),
  );
  return await policy.records.change((now) => {
    if (ticketOf(now, ticket.nonce) === null || now === null) return null;
    if (!isEnough)
      return ended(now, { outcomes, why: 'did not reach its quorum', is_whole: false });
    const { open } = now.transfers;
    const paused = (open?.engines ?? []).filter(({ group }) => whole.includes(group));
    const there = Object.entries(outcomes).filter(([url]) => now.replicas[url] !== undefined);
    const left = there.reduce(
      (next, [replica, outcome]) => withReplica(next, { replica, ...outcome }),
      now,
    );
    return { ...left, transfers: { ...left.transfers, open: { ...ticket, engines: paused } } };
  });
}

/** An engine may still do what it has not answered, and be paused after it was resumed: it gets its weights whole. */
function afterPause(outcome: Outcome, fault: Fault | null): Outcome {
  if (fault === null) return outcome;
  const isSilent = fault.type === 'GenerationUnavailable' && fault.status === null;
  if (outcome.state === 'current' && !isSilent) return outcome;
  const state = outcome.state === 'current' ? 'unknown' : outcome.state;
  return { ...outcome, state, fault: fault.message };
}

function answerOf(
  { nonce, version, engines, fleet }: Ticket,
  { policy, record }: { policy: PolicyService; record: PolicyRecord | null },
): BeginAnswer {
  return {
    ticket: nonce,
    version,
    engines: engines.map(({ url, world_size, rank_offset, group, backend }) => {
      const control = knownControl(policy, url);
      return {
        url,
        control_url: control?.control_url ?? url,
        instance: record?.replicas[url]?.instance ?? null,
        world_size,
        rank_offset,
        group,
        backend,
      };
    }),
    fleet,
    init: record === null || needsInit(record.transfers, fleet),
  };
}
