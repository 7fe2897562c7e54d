import { z } from 'zod';
import { Flag, orNull, On } from '../field-kinds.js';
import { LOGPROBS_MODES } from '../logprobs-mode.js';
import { REPLICA_NEEDS, REPLICA_STATES } from '../workflow-safe/policy-states.js';
import type { ReplicaState } from '../workflow-safe/policy-states.js';
import { TRANSFER } from '../workflow-safe/policy.js';
import { Begin, Holder, Level, Manner, Weights } from './orders.js';

/**
 * The record of a service's policy, on which labels, fences and updates rely. Each change is put once under the next
 * epoch. If two write it, one loses, reads again and decides anew. Without a record nothing is fenced.
 */

/** Milliseconds since 1970. */
const time = z.number();

/** One of the policies that a replica samples from. */
const ServedAdapter = z.object({
  /** null: nobody has published the weights. */
  version: z.int().nullable(),
  /** As requests name it; null: the weights alone. */
  name: z.string().nullable(),
});
export type ServedAdapter = z.infer<typeof ServedAdapter>;

/** How a replica was put to sleep. It stays until the replica is `current` again. */
const Slept = z.object({
  level: Level,
  /** Its own label of its weights; null: it had none. */
  label: z.string().nullable(),
  /** Its logprobs of fixed ids; null: it could not be asked. */
  before: z.array(z.number()).nullable(),
});
export type Slept = z.infer<typeof Slept>;

/** What is known of a replica in any state. */
const Standing = z.strictObject({
  /** Grows with each change of this replica. A request sent under an earlier epoch may belong to other weights. */
  epoch: z.int().default(0),
  /** The version of the weights that it serves or served last; null: this workflow did not publish them. */
  version: orNull(z.int()),
  /** The policies that its streams may go on under, the one for new requests last; empty: its weights alone. */
  adapters: z.array(ServedAdapter).default([]),
  /** The version of its weights, if it has adapters. */
  base: orNull(z.int()),
  /** Why it does not serve, or lacks an adapter. */
  fault: orNull(z.string()),
  /** Who named it: null is temporal.yaml, `join` is update `join`, anything else the owner of a list (`engines`). */
  owner: orNull(z.string()),
  /** Where its weights are changed; null: as temporal.yaml says, or below its base URL. */
  control_url: orNull(z.string()),
  /** Which process is behind the URL, as its join says; null: nobody says it. */
  instance: orNull(z.string()),
  /** false: it has joined, and nobody has compared it with the others yet. It is asked nothing that a rollout needs. */
  examined: On,
  /** It gets no new request, and its streams are cut then; null: it is not draining. */
  draining_until: orNull(time),
});

/** Of one that does not serve. */
const Idle = Standing.extend({
  /** What it needs before it can serve; null: nothing, or what the workflow gives it by itself. */
  needs: orNull(z.enum(REPLICA_NEEDS)),
  /** It sleeps, or has yet to be woken; null: it is awake. */
  slept: orNull(Slept),
});

/** Only `current` replicas get requests. */
const ReplicaEntry = z.discriminatedUnion('state', [
  Standing.extend({ state: z.literal('current') }),
  /** A worker that finds `paused_until` in the past ends the pause. */
  Idle.extend({ state: z.literal('updating'), paused_until: time }),
  Idle.extend({ state: z.literal('asleep') }),
  /** `paused_until`: it hangs inside a transfer, and may answer until then. */
  Idle.extend({ state: z.literal('unknown'), paused_until: orNull(time) }),
  /** `away_since` null: nobody knows. */
  Idle.extend({ state: z.literal('away'), away_since: orNull(time) }),
]);
export type ReplicaEntry = z.infer<typeof ReplicaEntry>;

type Fields = z.infer<typeof Idle> & Record<'paused_until' | 'away_since', number | null>;

/** A replica with the fields of all states. */
export const fieldsOf = (entry: ReplicaEntry): Fields & Pick<ReplicaEntry, 'state'> => ({
  ...{ needs: null, slept: null, paused_until: null, away_since: null },
  ...entry,
});

/** How a replica was put to sleep; null: it was not. */
export const sleptOf = (record: PolicyRecord | null, url: string): Slept | null => {
  const entry = record?.replicas[url];
  return entry === undefined ? null : fieldsOf(entry).slept;
};

/** An entry with the fields of its state alone. */
export const entryOf = (fields: Partial<Fields> & Pick<ReplicaEntry, 'state'>): ReplicaEntry =>
  Stripped.parse(fields);
const Stripped = z.union(ReplicaEntry.options.map((one) => one.strip()));

/** What replicas of one service have in common, whatever their weights. */
const EngineIdentity = z.strictObject({
  model: z.string(),
  max_model_len: z.int().nullable(),
  /** A hash of the ids of some texts. */
  tokenizer: z.string(),
  logprobs_mode: z.enum(LOGPROBS_MODES).nullable(),
});
export type EngineIdentity = z.infer<typeof EngineIdentity>;

/** Recorded by publishing: a path may have other contents later, and a version names one. */
const WeightFiles = z.object({
  bytes: z.int(),
  /** When the youngest was written, in ISO form. */
  modified: z.string(),
  /** A hash of names, sizes, and the contents of small files, such as an index. */
  sha256: z.string(),
  /** All were small, so no other content has this hash. */
  whole: z.boolean(),
  /** Whose worker saw them. */
  host: z.string(),
});
export type WeightFiles = z.infer<typeof WeightFiles>;

/** What a version is, if it is an adapter (LoRA): weights beside those of an engine, under a name that is their label. */
const AdapterOf = z.object({
  name: z.string(),
  /** The version of the weights that it was published for; null: those that engines start with. */
  base: z.int().nullable(),
  keep_adapters: z.int(),
});
export type AdapterOf = z.infer<typeof AdapterOf>;

/** An adapter whose files somebody may still need. */
const KeptAdapter = z.object({ version: z.int(), path: z.string() });
export type KeptAdapter = z.infer<typeof KeptAdapter>;

export const Published = Manner.extend({
  /** Weights that a trainer put into the engines itself are nowhere else. */
  weights: z.union([Weights, z.strictObject({ kind: z.literal(TRANSFER) })]),
  /** What the worker that published it saw at its path; null: nothing. */
  files: orNull(WeightFiles),
  /** null: it is no adapter. */
  lora: orNull(AdapterOf),
  /** Who brought it; null: it did not say. */
  holder: orNull(Holder),
  take_over: Flag,
});
export type Published = z.infer<typeof Published>;

const TicketEngine = z.object({
  url: z.string(),
  /** Engines of one collective fail together. */
  group: z.int(),
  world_size: z.int(),
  rank_offset: z.int(),
  /** By which weights are sent to it; null: it does not say it. */
  backend: z.string().nullable(),
  /** Before the ticket. An engine that nobody touched goes back to it. */
  was: z.object({
    state: z.enum(REPLICA_STATES),
    needs: z.enum(REPLICA_NEEDS).nullable(),
    /** What the engine said of its weights; null: nothing. */
    label: z.string().nullable(),
  }),
  /** Its logprobs before the transfer; null: it could not be asked. */
  before: z.array(z.number()).nullable(),
  /** It has left the service, or drains: the ticket goes on without it. */
  left: z.boolean(),
});
export type TicketEngine = z.infer<typeof TicketEngine>;

/** A transfer: who may put weights into which engines, under which version. */
const Ticket = Begin.extend({
  nonce: z.string(),
  version: z.int(),
  began_at: time,
  paused_until: time,
  /** Names engines, places and groups: a collective that was made for another fleet is not for this one. */
  fleet: z.string(),
  engines: z.array(TicketEngine),
  /** `finish` has begun: an engine may have its final label. */
  finishing: z.boolean(),
});
export type Ticket = z.infer<typeof Ticket>;

/** A ticket that is no longer in force. Whoever has it is refused for ever. */
const PastTicket = Ticket.pick({ nonce: true, version: true, holder: true, fleet: true }).extend({
  why: z.string(),
  /** It has finished: its collective may be used again. */
  is_whole: z.boolean(),
});

const Transfers = z.object({ open: orNull(Ticket), past: z.array(PastTicket).default([]) });
export type Transfers = z.infer<typeof Transfers>;

/** Engines sleep. */
const Sleeping = z.object({
  /** The nonce of the update, so that another attempt knows its own. */
  nonce: z.string(),
  holder: Holder,
  level: Level,
  until: time,
});
export type Sleeping = z.infer<typeof Sleeping>;

/** The trainer that alone may bring weights. */
const Hold = Holder.extend({
  /** When this name began to hold it. */
  since: time,
  /** When its last update was. */
  at: time,
  /** Whose hold it has ended by `take_over`; null: nobody's. */
  took_from: z.string().nullable(),
});

/** Versions that one trainer has brought, up to the next one's first. */
const Course = z.object({
  /** null: it did not say who it is. */
  name: z.string().nullable(),
  first: z.int(),
  /** What was served when it began; null: nothing that was published. */
  found: z.int().nullable(),
});

const Holding = z.object({
  hold: orNull(Hold),
  /** Its holders so far, the newest incarnation of each name last: an earlier one is refused for ever. */
  incarnations: z.array(Holder).default([]),
  /** The last ones, oldest first. */
  courses: z.array(Course).default([]),
});
export type Holding = z.infer<typeof Holding>;

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
  identity: orNull(EngineIdentity),
  transfers: Transfers.prefault({}),
  /** The last published ones, oldest first. */
  adapters: z.array(KeptAdapter).default([]),
  /** Who has put engines to sleep; null: nobody, or they are being woken. */
  sleep: orNull(Sleeping),
  /** Who may bring weights, and who has brought which. */
  holding: Holding.prefault({}),
});
export type PolicyRecord = z.infer<typeof PolicyRecord>;

/** Derives a change from the current record; null: no change. The caller sets epoch and writer. */
export type Change = (record: PolicyRecord | null) => PolicyRecord | null;

/** The first record: every replica serves unpublished weights. */
export const firstRecord = (replicas: readonly string[]): PolicyRecord =>
  PolicyRecord.parse({
    epoch: -1,
    writer: '',
    version: null,
    target: null,
    weights: {},
    replicas: Object.fromEntries(replicas.map((replica) => [replica, { state: 'current' }])),
  });

export type ReplicaChange = { state: ReplicaState } & Partial<Omit<Fields, 'epoch'>>;

/** The record with one of its replicas changed; the replica's epoch grows. A new one joins (`withJoined`). */
export function withReplica(
  record: PolicyRecord,
  { replica, ...change }: { replica: string } & ReplicaChange,
): PolicyRecord {
  const entryBefore = record.replicas[replica];
  if (entryBefore === undefined) throw new Error(`${replica} is no replica of the record`);
  const before = fieldsOf(entryBefore);
  const away_since = before.away_since ?? change.away_since ?? null;
  // Other weights have no adapters yet.
  const weights = change.version === undefined ? {} : { adapters: [], base: null };
  const fields = { ...before, paused_until: null, fault: null, ...weights, ...change, away_since };
  const entry = entryOf({ ...fields, epoch: before.epoch + 1 });
  return { ...record, replicas: { ...record.replicas, [replica]: entry } };
}

/** The record with each of these replicas changed. One that has left stays gone. */
export const withEach = (
  record: PolicyRecord,
  changes: Readonly<Record<string, ReplicaChange>>,
): PolicyRecord =>
  Object.entries(changes).reduce(
    (next, [replica, change]) =>
      next.replicas[replica] === undefined ? next : withReplica(next, { ...change, replica }),
    record,
  );

/** The record with fields of an entry that are no change of what the replica serves: its epoch stays. */
export function withFields(
  record: PolicyRecord,
  { replica, ...change }: { replica: string } & Partial<Omit<Fields, 'epoch'>>,
): PolicyRecord {
  const before = record.replicas[replica];
  if (before === undefined) return record;
  const entry = entryOf({ ...fieldsOf(before), ...change });
  return { ...record, replicas: { ...record.replicas, [replica]: entry } };
}

/** Whether a replica is unchanged since a request or an attempt found it. */
export const isUnchanged = (
  record: PolicyRecord | null,
  { replica, epoch }: { replica: string; epoch: number },
): boolean => record?.replicas[replica]?.epoch === epoch;

/** What an engine says of its weights while an update is under way. No token with it has a version. */
export const inTransit = (version: number, nonce: string): string => `${version}?${nonce}`;
export const isInTransit = (label: string): boolean => label.includes('?');
