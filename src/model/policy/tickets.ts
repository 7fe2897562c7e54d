import { TRANSFER } from '../workflow-safe/policy.js';
import { holderName, isHolder, timeOf } from './holding.js';
import type { Begin } from './orders.js';
import type {
  PolicyRecord,
  Published,
  ReplicaChange,
  Ticket,
  TicketEngine,
  Transfers,
} from './record.js';
import { withEach } from './record.js';
import { pathOf, withTarget } from './target.js';

/** How many tickets that are over are remembered, so that whoever has one learns why. */
const MOST_PAST = 16;

export const versionOf = (
  record: PolicyRecord | null,
  { version }: Pick<Begin, 'version'>,
): number => version ?? (record?.target ?? 0) + 1;

/** Why this `begin` is refused; null: it may have the engines. `nonce` is its own, if it was begun before. */
export function refusalOfBegin(record: PolicyRecord | null, begin: Begin): string | null {
  if (record === null) return null;
  const { open } = record.transfers;
  if (open !== null && open.holder.name !== begin.holder.name)
    return `holder: ${holderName(open.holder)} has the engines for version ${open.version}, at most until ${timeOf(open.paused_until)}; got ${holderName(begin.holder)}`;
  return refusalOfNumber(record, begin);
}

/** A number is spent once an engine has served it. */
function refusalOfNumber(record: PolicyRecord, begin: Begin): string | null {
  const { target, weights, transfers } = record;
  const { version, only, holder, checkpoint } = begin;
  if (version === null || target === null || version > target) return null;
  const more = `version: expected more than ${target}`;
  if (version < target) return `${more}, the last one tried, got ${version}`;
  const last = transfers.past.at(-1);
  const isOwn = last?.version === version && isHolder(last.holder, holder);
  if (isSpent(record, version) && !(isOwn && only !== null))
    return isOwn
      ? `${more}, which engines have served; name those that lack it with \`only\`, got null`
      : `${more}, which engines have served, got ${version}`;
  const theirs = pathOf(weights[version]);
  if (theirs === null || theirs === checkpoint || (isOwn && checkpoint === null)) return null;
  return `version: expected more than ${target}, which has the files ${JSON.stringify(theirs)}, got ${version}`;
}

const isSpent = (
  { version: served, replicas, transfers }: PolicyRecord,
  version: number,
): boolean =>
  served === version ||
  transfers.past.some((one) => one.version === version && one.is_whole) ||
  Object.values(replicas).some((one) => one.state === 'current' && one.version === version);

/** Why whoever shows this ticket is refused; null: it is the open one. */
export function refusalOfTicket(record: PolicyRecord | null, nonce: string): string | null {
  const { open = null, past = [] } = record?.transfers ?? {};
  if (open?.nonce === nonce) return null;
  const over = past.find((one) => one.nonce === nonce);
  const got = JSON.stringify(nonce);
  if (over !== undefined)
    return `ticket: ${got} of ${holderName(over.holder)} for version ${over.version} ${over.why}`;
  if (open === null) return `ticket: no transfer is open, got ${got}; \`begin\` gives a ticket`;
  return `ticket: expected that of ${holderName(open.holder)}, which has the engines for version ${open.version}, got ${got}`;
}

/** What `publish` and others hear while a transfer is open; null: none is. */
export function refusalWhileOpen(record: PolicyRecord | null): string | null {
  const open = record?.transfers.open ?? null;
  if (open === null) return null;
  return `${holderName(open.holder)} has the engines for version ${open.version}, at most until ${timeOf(open.paused_until)}: \`finish\` or \`abandon\` ends that`;
}

/** The record in which this ticket is open. Each of its engines is being updated; one before it is over. */
export function opened(
  record: PolicyRecord,
  { ticket, begin, files }: { ticket: Ticket; begin: Begin } & Pick<Published, 'files'>,
): PolicyRecord {
  const { version } = ticket;
  const before = record.transfers.open;
  const cleared = before === null ? record : over(record, { why: whyOverBy(before, ticket) });
  const path = begin.checkpoint ?? pathOf(record.weights[version]);
  const weights = path === null ? { kind: TRANSFER } : { kind: 'checkpoint' as const, path };
  const probe = begin.probe === 'agree' ? null : begin.probe;
  return withTicket(withTarget(cleared, { ...begin, version, weights, probe, files }), ticket);
}

/** Puts the open ticket and makes every engine of it one that is being updated. */
export function withTicket(record: PolicyRecord, ticket: Ticket): PolicyRecord {
  const { engines, paused_until } = ticket;
  const there = engines.filter(({ left }) => !left);
  const changes = there.map(({ url, was: { needs } }): [string, ReplicaChange] => [
    url,
    { state: 'updating', paused_until, needs },
  ]);
  const updating = withEach(record, Object.fromEntries(changes));
  return { ...updating, transfers: { ...updating.transfers, open: ticket } };
}

/** The record in which the open ticket, if there is one, goes on without an engine. */
export function withoutTicketEngine(record: PolicyRecord, url: string): PolicyRecord {
  const { open } = record.transfers;
  if (open === null) return record;
  const engines = open.engines.map((one) => (one.url === url ? { ...one, left: true } : one));
  return { ...record, transfers: { ...record.transfers, open: { ...open, engines } } };
}

const whyOverBy = ({ holder }: Ticket, next: Ticket): string =>
  isHolder(holder, next.holder)
    ? `was given up: the same process has begun version ${next.version}`
    : `was superseded: incarnation ${JSON.stringify(next.holder.incarnation)} has begun version ${next.version}`;

export type Outcomes = Readonly<Record<string, ReplicaChange>>;

/** The record with these outcomes. An engine that changed meanwhile stays as it is. */
export const withOutcomes = (record: PolicyRecord, outcomes: Outcomes): PolicyRecord =>
  withEach(
    record,
    Object.fromEntries(
      Object.entries(outcomes).filter(([url]) => record.replicas[url]?.state === 'updating'),
    ),
  );

/** The record after its ticket; `why`: what its holder hears from now on. */
export const ended = (
  record: PolicyRecord,
  { outcomes, ...end }: { outcomes: Outcomes; why: string; is_whole: boolean },
): PolicyRecord => over(withOutcomes(record, outcomes), end);

function over(
  record: PolicyRecord,
  { why, is_whole = false }: { why: string; is_whole?: boolean },
): PolicyRecord {
  const { open, past } = record.transfers;
  if (open === null) return record;
  const { nonce, version, fleet, holder } = open;
  const ended = { nonce, version, fleet, holder, why, is_whole };
  return { ...record, transfers: { open: null, past: [...past, ended].slice(-MOST_PAST) } };
}

/** Whether the collective has to be made anew. */
export function needsInit({ past }: Transfers, fleet: string): boolean {
  const last = past.at(-1);
  return last === undefined || !last.is_whole || last.fleet !== fleet;
}

export function neededGroups(
  { quorum, engines }: Pick<Ticket, 'quorum' | 'engines'>,
  { isAway }: { isAway: (url: string) => boolean },
): number {
  const there = engines.filter(({ url }) => !isAway(url));
  return quorum ?? new Set(there.map(({ group }) => group)).size;
}

/** The groups all of whose engines hold. */
export function wholeGroups(
  engines: readonly Pick<TicketEngine, 'url' | 'group'>[],
  holds: (url: string) => boolean,
): number[] {
  const all = [...new Set(engines.map(({ group }) => group))];
  return all.filter((group) => engines.every((one) => one.group !== group || holds(one.url)));
}

/** Labels with which an engine may end its transfer. */
export function acceptedLabels(
  { version, own_label, finishing }: Pick<Ticket, 'version' | 'own_label' | 'finishing'>,
  {
    url,
    labels,
    transit,
  }: { url: string; labels: Readonly<Record<string, string>>; transit: string },
): string[] {
  const own = labels[url] ?? own_label;
  return [transit, ...(own === null ? [] : [own]), ...(finishing ? [String(version)] : [])];
}

/** Places in collectives: the trainer is rank 0 of each. */
export function placed<T extends { world_size: number }>(
  engines: readonly T[],
  groups: number | null,
): (T & { group: number; rank_offset: number })[] {
  const count = groups ?? engines.length;
  const next = new Map<number, number>();
  return engines.map((engine, i) => {
    const group = Math.floor((i * count) / engines.length);
    const rank_offset = next.get(group) ?? 1;
    next.set(group, rank_offset + engine.world_size);
    return { ...engine, group, rank_offset };
  });
}
