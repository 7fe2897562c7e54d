import { z } from 'zod';
import { LOGPROBS_MODES } from '../logprobs-mode.js';
import type { ReplicaState } from '../workflow-safe/policy.js';
import { REPLICA_NEEDS, REPLICA_STATES, TRANSFER } from '../workflow-safe/policy.js';
import type { Publish } from './publish.js';
import { Manner, MAX_VERSION, Weights } from './publish.js';
import { AdapterOf, KeptAdapter, ServedAdapter } from './adapter.js';
import { Holder, Holding, NO_HOLDING } from './holder.js';
import { Sleeping, Slept } from './sleep.js';
import { NO_TRANSFERS, Transfers } from './ticket.js';
import { WeightFiles, filesText, isOther } from './weight-files.js';

/**
 * The record of a service's policy, on which labels, fences and updates rely. Each change is put once under the next
 * epoch. If two write it, one loses, reads again and decides anew. Without a record nothing is fenced.
 */

const ReplicaEntry = z.strictObject({
  /** Only `current` replicas get requests. */
  state: z.enum(REPLICA_STATES),
  /** The version of the weights that it serves or served last; null: this workflow did not publish them. */
  version: z.int().nullable(),
  /** Grows with each change of this replica. A request sent under an earlier epoch may belong to other weights. */
  epoch: z.int(),
  /** Milliseconds since 1970. A worker that finds this in the past ends the pause. */
  paused_until: z.number().nullable(),
  /** Why it is not `current`. */
  fault: z.string().nullable(),
  /** What it needs before it can serve; null: nothing, or what the workflow gives it by itself. */
  needs: z.enum(REPLICA_NEEDS).nullable().default(null),
  /** Who named it: null is temporal.yaml, `join` is update `join`, anything else the owner of a list (`engines`). */
  owner: z.string().nullable().default(null),
  /** Where its weights are changed; null: as temporal.yaml says, or below its base URL. */
  control_url: z.string().nullable().default(null),
  /** Which process is behind the URL, as its join says; null: nobody says it. */
  instance: z.string().nullable().default(null),
  /** false: it has joined, and nobody has compared it with the others yet. It is asked nothing that a rollout needs. */
  examined: z.boolean().default(true),
  /** Milliseconds since 1970. It gets no new request, and its streams are cut then; null: it is not draining. */
  draining_until: z.number().nullable().default(null),
  /** Milliseconds since 1970; null: it is not away, or nobody knows. */
  away_since: z.number().nullable().default(null),
  /** The policies that its streams may go on under, the one for new requests last; empty: its weights alone. */
  adapters: z.array(ServedAdapter).default([]),
  /** The version of its weights, if it has adapters. */
  base: z.int().nullable().default(null),
  /** It sleeps, or has yet to be woken; null: it is awake. */
  slept: Slept.nullable().default(null),
});
export type ReplicaEntry = z.infer<typeof ReplicaEntry>;

/** What replicas of one service have in common, whatever their weights. */
export const EngineIdentity = z.strictObject({
  /** The served name. */
  model: z.string(),
  max_model_len: z.int().nullable(),
  /** A hash of the ids of some texts. */
  tokenizer: z.string(),
  logprobs_mode: z.enum(LOGPROBS_MODES).nullable().default(null),
});
export type EngineIdentity = z.infer<typeof EngineIdentity>;
/** Weights that a trainer put into the engines itself: nobody else has them. */
const Transferred = z.strictObject({ kind: z.literal(TRANSFER) });
const KnownWeights = z.union([Weights, Transferred]);

const Published = Manner.extend({
  weights: KnownWeights,
  /** What the worker that published it saw at its path; null: nothing. */
  files: WeightFiles.nullable().default(null),
  /** null: it is no adapter. */
  lora: AdapterOf.nullable().default(null),
  /** Who brought it; null: it did not say. */
  holder: Holder.nullable().default(null),
  take_over: z.boolean().default(false),
});
export type Published = z.infer<typeof Published>;

export const PolicyRecord = z.strictObject({
  epoch: z.int(),
  /** Unique to the change, so that two equal changes differ. */
  writer: z.string(),
  /** The last version of a quorum, which returning replicas are given; null: none yet. */
  version: z.int().nullable(),
  /** The highest published version. */
  target: z.int().nullable(),
  /** How `version` and `target` are brought to a replica, by version. */
  weights: z.record(z.string(), Published),
  replicas: z.record(z.string(), ReplicaEntry),
  /** What all examined replicas are; null: none has been examined yet. */
  identity: EngineIdentity.nullable().default(null),
  transfers: Transfers.default(NO_TRANSFERS),
  /** The last published ones, oldest first. */
  adapters: z.array(KeptAdapter).default([]),
  /** Who has put engines to sleep; null: nobody, or they are being woken. */
  sleep: Sleeping.nullable().default(null),
  /** Who may bring weights, and who has brought which. */
  holding: Holding.default(NO_HOLDING),
});
export type PolicyRecord = z.infer<typeof PolicyRecord>;

/** Derives a change from the current record; null: no change. The caller sets epoch and writer. */
export type Change = (record: PolicyRecord | null) => PolicyRecord | null;

/** The first record: every replica serves unpublished weights. */
export const firstRecord = (replicas: readonly string[]): PolicyRecord => ({
  epoch: -1,
  writer: '',
  version: null,
  target: null,
  weights: {},
  replicas: Object.fromEntries(
    replicas.map((replica) => [replica, entryOf({ state: 'current', version: null })]),
  ),
  identity: null,
  transfers: NO_TRANSFERS,
  adapters: [],
  sleep: null,
  holding: NO_HOLDING,
});

const entryOf = (given: Partial<ReplicaEntry> & Pick<ReplicaEntry, 'state'>): ReplicaEntry => ({
  version: null,
  epoch: 0,
  paused_until: null,
  fault: null,
  needs: null,
  owner: null,
  control_url: null,
  instance: null,
  examined: true,
  draining_until: null,
  away_since: null,
  adapters: [],
  base: null,
  slept: null,
  ...given,
});

/** A record from before versions had a bound, or at it. */
const WAY_BACK =
  '; there is no higher one: give the service another name in temporal.yaml, whose versions begin anew (docs/weights.md)';

/** An update, and what its worker sees of the weights. */
export type Target = Publish & Partial<Pick<Published, 'files'>>;

/** Why this target is refused. null: it is new, or it is the current target with the same weights. */
export function refusalOfTarget(
  record: PolicyRecord | null,
  { version, weights, files = null }: Target,
): string | null {
  const target = record?.target ?? null;
  if (record === null || target === null || version > target) return null;
  if (version < target)
    return `version: expected more than ${target}, the last one tried, got ${version}${target < MAX_VERSION ? '' : WAY_BACK}`;
  const theirs = record.weights[version];
  if (theirs === undefined || theirs.weights.kind === TRANSFER) return null;
  if (!isSame(theirs.weights, weights))
    return `weights: version ${version} has ${nameOf(theirs.weights)}, got ${nameOf(weights)}; publish other weights under a higher version`;
  const { files: before } = theirs;
  if (before === null || files === null || !isOther(before, files)) return null;
  return `weights: ${otherFiles(weights.path, { version, before, now: files })}`;
}

/** A version names one content. */
export const otherFiles = (
  path: string,
  { version, before, now }: { version: number; before: WeightFiles; now: WeightFiles },
): string =>
  `expected what ${JSON.stringify(path)} had when version ${version} was published (${filesText(before)}), got others (${filesText(now)}); publish other files under a higher version`;

const isSame = (a: Weights, b: Weights): boolean => nameOf(a) === nameOf(b);
const nameOf = ({ kind, path }: Weights): string => `${kind} ${JSON.stringify(path)}`;

/** Where files of a version are; null: nowhere. */
export const pathOf = (known: Pick<Published, 'weights'> | undefined): string | null =>
  known === undefined || known.weights.kind === TRANSFER ? null : known.weights.path;

type Brought = Pick<Publish, 'version' | 'cache' | 'probe' | 'pause_limit'> &
  Pick<Published, 'weights'> &
  Partial<Pick<Published, 'files' | 'lora' | 'holder' | 'take_over'>>;

/** The record with these weights as its target. */
export function withTarget(record: PolicyRecord, publish: Brought): PolicyRecord {
  const { version } = publish;
  const files = record.weights[version]?.files ?? publish.files ?? null;
  const published = Published.parse({ ...publish, files });
  const next = { ...record, target: version };
  return { ...next, weights: kept(next, { [version]: published }) };
}

/** `version` becomes `target`. */
export const concluded = (record: PolicyRecord): PolicyRecord => {
  const next = { ...record, version: record.target };
  return { ...next, weights: kept(next, {}) };
};

function kept(
  { version, target, weights }: PolicyRecord,
  more: PolicyRecord['weights'],
): PolicyRecord['weights'] {
  const all = { ...weights, ...more };
  const named = [version, target].filter((one) => one !== null);
  const bases = named.map((one) => all[one]?.lora?.base ?? null);
  const names = new Set([...named, ...bases].map(String));
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.has(name)));
}

/** The record with one replica changed; the replica's epoch grows. */
export function withReplica(
  record: PolicyRecord,
  {
    replica,
    ...change
  }: { replica: string; state: ReplicaState } & Partial<Omit<ReplicaEntry, 'epoch'>>,
): PolicyRecord {
  const before = record.replicas[replica] ?? entryOf({ state: 'away', epoch: -1 });
  const entry = {
    ...before,
    paused_until: null,
    fault: null,
    needs: change.state === 'current' ? null : before.needs,
    slept: change.state === 'current' ? null : before.slept,
    // Other weights have no adapters yet.
    ...(change.version !== undefined && { adapters: [], base: null }),
    ...change,
    away_since: change.state === 'away' ? (before.away_since ?? change.away_since ?? null) : null,
    epoch: before.epoch + 1,
  };
  return { ...record, replicas: { ...record.replicas, [replica]: entry } };
}

/**
 * The record with exactly these replicas of temporal.yaml, beside those that have joined. A new one has yet to be
 * examined and to get its weights.
 */
export function withReplicas(record: PolicyRecord, urls: readonly string[]): PolicyRecord {
  const isSame =
    urls.every((url) => record.replicas[url]?.owner === null) &&
    Object.entries(record.replicas).every(
      ([url, { owner }]) => owner !== null || urls.includes(url),
    );
  if (isSame) return record;
  const joined = urls
    .filter((url) => record.replicas[url] === undefined)
    .reduce((next, url) => withJoined(next, { replica: url, owner: null }), record);
  const named = urls.flatMap((url): [string, ReplicaEntry][] => {
    const entry = joined.replicas[url];
    return entry === undefined ? [] : [[url, { ...entry, owner: null }]];
  });
  const others = Object.entries(record.replicas).filter(
    ([url, { owner }]) => owner !== null && !urls.includes(url),
  );
  return { ...joined, replicas: Object.fromEntries([...named, ...others]) };
}

/** A replica joins, or the process behind its URL is another one. It serves nothing until it has been examined. */
export const withJoined = (
  record: PolicyRecord,
  joiner: { replica: string } & Partial<Omit<ReplicaEntry, 'state' | 'epoch'>>,
): PolicyRecord =>
  withReplica(record, {
    fault: 'it has joined',
    draining_until: null,
    ...joiner,
    state: 'away',
    examined: false,
  });

/** Whether it is only in the record because temporal.yaml names it. */
export const hasLeft = ({
  state,
  draining_until,
}: Pick<ReplicaEntry, 'state' | 'draining_until'>): boolean =>
  draining_until !== null && state === 'away';

/** Whether a replica is unchanged since a request or an attempt found it. */
export const isUnchanged = (
  record: PolicyRecord | null,
  { replica, epoch }: { replica: string; epoch: number },
): boolean => record?.replicas[replica]?.epoch === epoch;
