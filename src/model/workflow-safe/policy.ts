import type { PolicyView, ReplicaView } from '../results/answers.js';
import { PHASES, type Phase, type ReplicaState } from './policy-states.js';

/** What workflow `policy` decides with: the state of each replica, without weights and probe. */

export type TicketView = NonNullable<PolicyView['ticket']>;

export type SleepView = NonNullable<PolicyView['sleep']>;

export const isServing = ({ state, draining_until = null }: Leaving): boolean =>
  state === 'current' && draining_until === null;

interface Leaving {
  state: ReplicaState;
  draining_until?: number | null;
}

/** Whether updates concern it: it is there, has been examined, and does not leave. */
const isConcerned = ({ state, examined, draining_until }: ReplicaView): boolean =>
  state !== 'away' && state !== 'asleep' && examined !== false && (draining_until ?? null) === null;

/** Signal `phase`: the phase of a slow replica. */
export interface PhaseNews {
  replica: string;
  phase: Phase;
}

/** Any client of the server may send a signal. */
export function isPhaseNews(value: unknown): value is PhaseNews {
  const { replica, phase } = Object(value) as Partial<PhaseNews>;
  return typeof replica === 'string' && PHASES.some((one) => one === phase);
}

export const policyId = (service: string): string => `policy/${service}`;

/** Faults of replicas in one text. Most messages begin with their replica. */
export const textOfFaults = (faults: Readonly<Record<string, string>>): string =>
  Object.entries(faults)
    .map(([url, fault]) => (fault.startsWith(url) ? fault : `${url}: ${fault}`))
    .join('; ');

export const countAt = ({ replicas }: PolicyView, version: number): number =>
  Object.values(replicas).filter((one) => one.state === 'current' && one.version === version)
    .length;

/** How many replicas must have it; replicas that are away, leave or have just joined do not count. */
export const neededOf = ({ replicas }: PolicyView, { quorum }: { quorum: number | null }): number =>
  quorum ?? Object.values(replicas).filter(isConcerned).length;

/** The available replicas that lack a version. Those that do not serve come first, since they have nothing to lose. */
export function lacking({ replicas }: PolicyView, version: number): string[] {
  const lacks = Object.entries(replicas).filter(
    ([, one]) => isConcerned(one) && (one.state !== 'current' || one.version !== version),
  );
  const serves = ([, { state }]: [string, ReplicaView]): number => Number(state === 'current');
  return lacks.sort((a, b) => serves(a) - serves(b)).map(([url]) => url);
}

/** Whether enough replicas can still get the target after this many failures. */
export const mayReach = (
  view: PolicyView,
  { quorum, failed }: { quorum: number | null; failed: number },
): boolean => neededOf(view, { quorum: null }) - failed >= neededOf(view, { quorum });

/**
 * Replicas that need `version` again: none if nobody but a trainer has its weights. If nothing was ever published, those
 * that have joined are only examined. An engine that hangs is asked until it answers. While a transfer is open, none is
 * restored; while engines sleep, nobody else's memory is touched.
 */
export function toRestore(view: PolicyView): string[] {
  if (isAsleep(view)) return [];
  const hasFiles = canRestore(view);
  const isDue = (one: ReplicaView): boolean =>
    one.state === 'current'
      ? lacksAdapter(view, one)
      : hasFiles ||
        hangs(one) ||
        keepsWeights(one) ||
        (view.version === null && one.examined === false);
  return Object.entries(view.replicas).flatMap(([url, one]) =>
    one.draining_until === undefined && isDue(one) && !isKept(view, url) ? [url] : [],
  );
}

/** By an open transfer: its engines are its holder's, and others would serve the version before it. */
export const isKept = ({ ticket = null, replicas }: PolicyView, url: string): boolean =>
  ticket !== null && replicas[url] !== undefined;

const isAsleep = ({ sleep }: PolicyView): boolean => sleep != null;

const keepsWeights = ({ slept, needs }: ReplicaView): boolean => slept === 1 && needs === undefined;

/** It serves an older version, and the record's is only an adapter away. */
const lacksAdapter = ({ version, weights }: PolicyView, one: ReplicaView): boolean =>
  version !== null && weights[String(version)]?.kind === LORA && (one.version ?? -1) < version;

/** When the next replica has drained, in milliseconds since 1970; null: none drains. */
export function nextDrained(record: PolicyView | null): number | null {
  const times = Object.values(record?.replicas ?? {}).flatMap(({ state, draining_until }) =>
    draining_until === undefined || state === 'away' ? [] : [draining_until],
  );
  return times.length === 0 ? null : Math.min(...times);
}

export const canRestore = ({
  version,
  weights,
}: Pick<PolicyView, 'version' | 'weights'>): boolean => {
  if (version === null) return false;
  const own = weights[String(version)];
  const below = own?.kind === LORA ? weights[String(own.base ?? null)] : own;
  return below?.kind !== TRANSFER;
};

/** Whether the engines of an open transfer can be loaded without its holder. */
export const canRepair = (view: PolicyView | null): boolean =>
  view !== null && (canRestore(view) || pathIn(view, view.ticket?.version) !== undefined);

const pathIn = ({ weights }: PolicyView, version: number | undefined): string | undefined =>
  weights[String(version)]?.path;

/** The kind of weights that a trainer put into the engines itself. */
export const TRANSFER = 'transfer' as const;

/** The kind of weights that are loaded beside others. */
const LORA = 'lora' as const;

/** It did not answer when its transfer ended. */
const hangs = ({ state, needs, paused_until }: ReplicaView): boolean =>
  needs === 'restart' || (needs === 'load' && state === 'unknown' && paused_until !== null);

/** Waits of 5 s, then ever longer ones: someone may repair the replica meanwhile. */
export const restoreDelayMs = (failures: number): number =>
  Math.min(120_000, 5000 * 2 ** Math.min(failures, 6));

/** What it says of each replica that does not serve; the full text is in the record. */
const MOST_OF_FAULT = 160;
const MOST_REPLICAS = 4;

type HeldBy = Pick<TicketView, 'version' | 'holder' | 'paused_until'>;

/** Why requests wait, and what to do about it; null: a replica serves. */
export function whyNothingServes({
  version,
  replicas,
  weights,
  sleep = null,
  ticket = null,
}: Pick<PolicyView, 'version' | 'weights' | 'sleep'> & {
  ticket?: HeldBy | null;
  replicas: Record<string, Pick<ReplicaView, 'state' | 'fault' | 'draining_until'>>;
}): string | null {
  const all = Object.entries(replicas);
  if (all.some(([, entry]) => isServing(entry))) return null;
  if (all.length === 0) return NO_ENGINE;
  const said = all.slice(0, MOST_REPLICAS).map(([url, { state, fault }]) => {
    const why = fault === null ? '' : ` (${briefFault(fault)})`;
    return `${url} is ${state === 'current' ? 'leaving' : state}${why}`;
  });
  const more = all.length > said.length ? ` and ${all.length - said.length} more` : '';
  const isLoading = all.some(([, { state }]) => state === 'updating');
  const remedy = sleep === null ? remedyFor({ version, weights }) : sleepText(sleep);
  const rest = ticket === null ? (isLoading ? '' : `; ${remedy}`) : `; ${heldText(ticket)}`;
  return `no replica serves: ${said.join(', ')}${more}${rest}`;
}

export const NO_ENGINE = 'no engine is there: temporal.yaml names none, and none has joined';

export const sleepText = ({ holder, level, until }: Omit<SleepView, 'nonce'>): string =>
  `${holder.name} (incarnation ${holder.incarnation}) has put them to sleep (level ${level}), at most until ${timeOfDay(until)} UTC: \`wake\` ends that`;

export const timeOfDay = (ms: number): string => new Date(ms).toISOString().slice(11, 19);

export const briefFault = (fault: string): string =>
  fault.length > MOST_OF_FAULT ? `${fault.slice(0, MOST_OF_FAULT)} …` : fault;

/** Its trainer may be another process by now, and wait for rollouts itself. */
const heldText = ({ holder, version, paused_until }: HeldBy): string =>
  `${holder.name} (incarnation ${holder.incarnation}) has the engines for version ${version}, at most until ${timeOfDay(paused_until)} UTC: \`finish\`, \`abandon\` or its next \`begin\` ends that`;

function remedyFor({ version, weights }: Pick<PolicyView, 'version' | 'weights'>): string {
  if (version === null) return 'publish a version that loads';
  return canRestore({ version, weights })
    ? `version ${version} is tried again; or publish one that loads`
    : remedyWithoutFiles(version);
}

export const remedyWithoutFiles = (version: number | null): string =>
  `${version === null ? '' : `attach files of version ${version}, `}publish a version, or begin the next transfer`;
