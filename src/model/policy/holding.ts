import type { Heard } from '../workflow-safe/hold.js';
import { HOLD_MS, heardAt } from '../workflow-safe/hold.js';
import type { Holder, Release } from './orders.js';
import type { Holding, PolicyRecord } from './record.js';

/** Who may bring weights to a service, as rules over the record. */

export interface Asking {
  /** null: it does not say who it is. */
  holder: Holder | null;
  take_over?: boolean;
  /** When holders were heard last. */
  heard: Heard | undefined;
  /** Milliseconds since 1970. */
  now: number;
}

/** A zombie older than these is a new process again. */
const MOST_INCARNATIONS = 64;
/** They are in each view, and so in histories. */
const MOST_COURSES = 32;

export const isHolder = (a: Holder, b: Holder): boolean =>
  a.name === b.name && a.incarnation === b.incarnation;

export const holderName = ({ name, incarnation }: Holder): string =>
  `${JSON.stringify(name)} (incarnation ${JSON.stringify(incarnation)})`;

/** Why it may bring no weights; null: it may. */
export function refusalOfHolder(record: PolicyRecord | null, asking: Asking): string | null {
  const { holder, take_over = false } = asking;
  if (take_over && holder === null) return 'take_over: expected a holder beside it, got none';
  if (record === null) return null;
  const superseded = holder === null ? null : refusalOfSuperseded(record, holder);
  if (superseded !== null) return superseded;
  const hold = heldBy(record, asking);
  if (hold === null || hold.name === holder?.name || take_over) return null;
  const { name, since } = hold;
  const got = holder === null ? 'none' : JSON.stringify(holder.name);
  return `holder: ${JSON.stringify(name)} has held the service since ${timeOf(since)}, and was last heard at ${timeOf(heardAt(hold, asking.heard))}; got ${got}. A hold ends ${HOLD_MS / 60_000} min after its last sign of life, or by \`release\` of ${JSON.stringify(name)}; \`publish\` or \`begin\` with \`take_over\` takes the service from it`;
}

/** null: nobody else has its name now. */
function refusalOfSuperseded(
  { holding: { incarnations } }: PolicyRecord,
  holder: Holder,
): string | null {
  const isKnown = incarnations.some((one) => isHolder(one, holder));
  const heir = incarnations.findLast(({ name }) => name === holder.name);
  if (!isKnown || heir === undefined || isHolder(heir, holder)) return null;
  return `holder: ${holderName(holder)} was superseded: incarnation ${JSON.stringify(heir.incarnation)} has its name now`;
}

/** null: nobody, or who did has been silent for too long. */
function heldBy({ holding }: PolicyRecord, { heard, now }: Pick<Asking, 'heard' | 'now'>) {
  const { hold } = holding;
  return hold === null || now >= heardAt(hold, heard) + HOLD_MS ? null : hold;
}

export const timeOf = (ms: number): string => new Date(ms).toISOString();

/** The record in which it holds the service, for it brings this version; `anew`: not the last one tried. */
export function withHolder(
  record: PolicyRecord,
  { version, anew, ...asking }: Asking & { version: number; anew: boolean },
): PolicyRecord {
  const { holder, now } = asking;
  const before = heldBy(record, asking);
  const { version: found, holding } = record;
  const next = { name: holder?.name ?? null, first: version, found };
  const courses = anew ? withCourse(holding.courses, next) : holding.courses;
  if (holder === null) return { ...record, holding: { ...holding, courses, hold: null } };
  const isOwn = before?.name === holder.name;
  const hold = {
    ...holder,
    since: isOwn ? before.since : now,
    at: now,
    took_from: isOwn ? before.took_from : (before?.name ?? null),
  };
  return { ...record, holding: { hold, courses, incarnations: withIncarnation(holding, holder) } };
}

function withCourse(
  courses: Holding['courses'],
  next: Holding['courses'][number],
): Holding['courses'] {
  const earlier = courses.filter(({ first }) => first < next.first);
  return earlier.at(-1)?.name === next.name ? earlier : [...earlier, next].slice(-MOST_COURSES);
}

const withIncarnation = (
  { incarnations }: Holding,
  { name, incarnation }: Holder,
): Holding['incarnations'] =>
  incarnations.some((one) => isHolder(one, { name, incarnation }))
    ? incarnations
    : [...incarnations, { name, incarnation }].slice(-MOST_INCARNATIONS);

/** Why this `release` is refused; null: it is not. Where nobody holds the service it changes nothing. */
export function refusalOfRelease(
  record: PolicyRecord | null,
  { holder: { name, incarnation } }: Release,
): string | null {
  if (record === null) return null;
  const { hold } = record.holding;
  const given = incarnation === null ? null : { name, incarnation };
  const superseded = given === null ? null : refusalOfSuperseded(record, given);
  if (superseded !== null) return superseded;
  if (hold === null || hold.name === name) return null;
  return `holder: expected ${JSON.stringify(hold.name)}, which has held the service since ${timeOf(hold.since)}, got ${JSON.stringify(name)}`;
}

export const released = (record: PolicyRecord): PolicyRecord => ({
  ...record,
  holding: { ...record.holding, hold: null },
});
