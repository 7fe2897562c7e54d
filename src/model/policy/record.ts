import { z } from 'zod';
import type { ReplicaState } from '../workflow-safe/policy.js';
import { REPLICA_STATES } from '../workflow-safe/policy.js';
import type { Publish, Weights } from './publish.js';
import { Manner, mannerOf } from './publish.js';

/**
 * The record of a service's policy: the fact that labels, fences and updates rest on. Each change is put once under the
 * next epoch, so that of two writers one loses, reads again and decides anew. Without a record nothing is fenced.
 */

const ReplicaEntry = z.object({
  /** `current` alone gets requests. */
  state: z.enum(REPLICA_STATES),
  /** Of the weights that it serves, or served last; null: not published by this workflow. */
  version: z.int().nullable(),
  /** Grows with each change of this replica: a request that was sent under an earlier one may be of other weights. */
  epoch: z.int(),
  /** Milliseconds since 1970: whoever finds this past, ends the pause. */
  paused_until: z.number().nullable(),
  /** Why it is not `current`. */
  fault: z.string().nullable(),
});
export type ReplicaEntry = z.infer<typeof ReplicaEntry>;

export const PolicyRecord = z.object({
  epoch: z.int(),
  /** Unique to the change: two writers that mean the same are still two. */
  writer: z.string(),
  /** What a quorum of replicas had last, and what replicas that come back are given; null: nothing yet. */
  version: z.int().nullable(),
  /** The highest that was published. */
  target: z.int().nullable(),
  /** How `version` and `target` are brought to a replica, by version. */
  weights: z.record(z.string(), Manner),
  replicas: z.record(z.string(), ReplicaEntry),
});
export type PolicyRecord = z.infer<typeof PolicyRecord>;

/** Decides on a record as it stands; null: there is nothing to change. Epoch and writer are given to what it returns. */
export type Change = (record: PolicyRecord | null) => PolicyRecord | null;

/** The first record: every replica serves what nobody has published. */
export const firstRecord = (replicas: readonly string[]): PolicyRecord => ({
  epoch: -1,
  writer: '',
  version: null,
  target: null,
  weights: {},
  replicas: Object.fromEntries(
    replicas.map((replica) => [replica, entryOf({ state: 'current', version: null })]),
  ),
});

const entryOf = (given: Partial<ReplicaEntry> & Pick<ReplicaEntry, 'state'>): ReplicaEntry => ({
  version: null,
  epoch: 0,
  paused_until: null,
  fault: null,
  ...given,
});

/** Why this target is refused; null: it is new, or the target with the same weights. */
export function refusalOfTarget(
  record: PolicyRecord | null,
  { version, weights }: Publish,
): string | null {
  const target = record?.target ?? null;
  if (record === null || target === null || version > target) return null;
  if (version < target) return `version: expected more than ${target}, got ${version}`;
  const theirs = record.weights[version]?.weights;
  if (theirs === undefined || isSame(theirs, weights)) return null;
  return `weights: version ${version} has ${nameOf(theirs)}, got ${nameOf(weights)}; publish other weights under a higher version`;
}

const isSame = (a: Weights, b: Weights): boolean => nameOf(a) === nameOf(b);
const nameOf = ({ kind, path }: Weights): string => `${kind} ${JSON.stringify(path)}`;

/** The record with this publish as its target. */
export const withTarget = (record: PolicyRecord, publish: Publish): PolicyRecord => ({
  ...record,
  target: publish.version,
  weights: kept({ ...record, target: publish.version }, { [publish.version]: mannerOf(publish) }),
});

/** `version` becomes `target`. */
export const concluded = (record: PolicyRecord): PolicyRecord => {
  const next = { ...record, version: record.target };
  return { ...next, weights: kept(next, {}) };
};

function kept(
  { version, target, weights }: PolicyRecord,
  more: PolicyRecord['weights'],
): PolicyRecord['weights'] {
  const names = new Set([version, target].filter((one) => one !== null).map(String));
  return Object.fromEntries(
    Object.entries({ ...weights, ...more }).filter(([name]) => names.has(name)),
  );
}

/** The record with one replica changed; its epoch grows. */
export function withReplica(
  record: PolicyRecord,
  {
    replica,
    ...change
  }: { replica: string; state: ReplicaState } & Partial<Omit<ReplicaEntry, 'epoch'>>,
): PolicyRecord {
  const before = record.replicas[replica] ?? entryOf({ state: 'away', epoch: -1 });
  const entry = { ...before, paused_until: null, fault: null, ...change, epoch: before.epoch + 1 };
  return { ...record, replicas: { ...record.replicas, [replica]: entry } };
}

/** The record of exactly these replicas: one that joins has yet to be given its weights, one that is gone is left out. */
export function withReplicas(record: PolicyRecord, urls: readonly string[]): PolicyRecord {
  const joined = urls
    .filter((url) => record.replicas[url] === undefined)
    .reduce(
      (next, url) => withReplica(next, { replica: url, state: 'away', fault: 'it has joined' }),
      record,
    );
  const named = urls.flatMap((url): [string, ReplicaEntry][] => {
    const entry = joined.replicas[url];
    return entry === undefined ? [] : [[url, entry]];
  });
  return { ...joined, replicas: Object.fromEntries(named) };
}

/** Whether a replica still is as a request or an attempt found it. */
export const standsAt = (
  record: PolicyRecord | null,
  { replica, epoch }: { replica: string; epoch: number },
): boolean => record?.replicas[replica]?.epoch === epoch;

/** Is something left that only the workflow can mend? */
export function needsCare(record: PolicyRecord, urls: readonly string[]): boolean {
  const entries = urls.map((url) => record.replicas[url]);
  return entries.some((entry) => entry === undefined || entry.state !== 'current');
}

/** A replica that stays paused beyond its limit: whoever was to end that is gone. */
export const isOverdue = ({ replicas }: PolicyRecord, now: number): boolean =>
  Object.values(replicas).some(({ paused_until }) => paused_until !== null && paused_until < now);
