import { BaseUrl } from '../base-url.js';
import { z } from 'zod';
import { Flag, orNull, refuserOf, Duration, On } from '../field-kinds.js';
import { preview } from '../problems.js';
import { listOf } from '../untrusted.js';
import { MOST_ENGINES } from './orders.js';
import type { EngineIdentity, PolicyRecord, ReplicaChange, ReplicaEntry } from './record.js';
import { entryOf, fieldsOf, withFields, withReplica } from './record.js';
import { withoutTicketEngine } from './tickets.js';

/** Updates `engines`, `join`, `drain` and `leave`: which replicas a service has, beside the first ones of temporal.yaml. */

/** Journals, rows and messages contain the replica's URL, so it must not contain credentials (use api_key_env). */
export const EngineUrl = BaseUrl.refine(
  (text) => text.endsWith('/v1'),
  'expected a base URL that ends in /v1',
);

const PlainName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,119}$/, 'expected a short plain name');

export const JOINED = 'join';

const engine = {
  url: EngineUrl.describe('its base URL, which ends in `/v1`'),
  control_url: orNull(BaseUrl).describe(
    'where its weights are changed; null: its base URL without `/v1`',
  ),
  instance: orNull(PlainName).describe(
    'names its process: another one behind the same URL has another',
  ),
};

export const Join = z.strictObject(engine);
export type Join = z.infer<typeof Join>;

export const Drain = z.strictObject({
  url: engine.url,
  drain_limit: Duration.default('1m').describe('its streams are cut then, and go on elsewhere'),
  force: Flag.describe('also if it is the last one'),
});
export type Drain = z.infer<typeof Drain>;

export const Leave = z.strictObject({ url: engine.url, force: Flag.describe('likewise') });
export type Leave = z.infer<typeof Leave>;

export const Engines = z
  .strictObject({
    owner: PlainName.refine(
      (name) => name !== JOINED,
      `expected another name than ${JOINED}`,
    ).describe('whose engines these are, such as the name of a training job'),
    urls: listOf(
      z.union([z.string().transform((url) => ({ url })), z.unknown()]).pipe(Join),
    ).describe('its engines: URLs, or objects as `join` takes them'),
    replace: On.describe('its other engines leave'),
    force: Flag.describe('an empty list: all of its engines leave'),
  })
  .superRefine(({ urls, replace, force }, context) => {
    const refuse = refuserOf(context);
    if (urls.length === 0 && replace && !force)
      refuse(
        ['urls'],
        'expected at least one engine, got none; with force all of its engines leave',
      );
    if (urls.length > MOST_ENGINES)
      refuse(['urls'], `expected at most ${MOST_ENGINES} engines, got ${urls.length}`);
    urls.forEach(({ url }, i) => {
      const first = urls.findIndex((one) => one.url === url);
      if (first < i)
        refuse(
          ['urls', i],
          `expected each engine once, got ${url} again, which is at ${first}, too`,
        );
    });
  });
export type Engines = z.infer<typeof Engines>;

/** Of temporal.yaml, beside those that have joined. A new one has yet to be examined and to get its weights. */
export function withReplicas(record: PolicyRecord, urls: readonly string[]): PolicyRecord {
  const named = urls.reduce((next, replica) => {
    const entry = next.replicas[replica];
    if (entry === undefined) return withJoined(next, { replica, owner: null });
    return entry.owner === null ? next : withFields(next, { replica, owner: null });
  }, record);
  const all = Object.entries(named.replicas);
  const left = all.filter(([url, { owner }]) => owner !== null || urls.includes(url));
  return left.length === all.length ? named : { ...named, replicas: Object.fromEntries(left) };
}

/** A replica joins, or the process behind its URL is another one. It serves nothing until it has been examined. */
export const withJoined = (
  record: PolicyRecord,
  joiner: { replica: string } & Partial<Omit<ReplicaChange, 'state'>>,
): PolicyRecord => {
  const entry = record.replicas[joiner.replica] ?? entryOf({ state: 'away', epoch: -1 });
  const known = { ...record, replicas: { ...record.replicas, [joiner.replica]: entry } };
  return withReplica(known, {
    fault: 'it has joined, and is examined next',
    draining_until: null,
    ...joiner,
    state: 'away',
    examined: false,
  });
};

/** Whether it is only in the record because temporal.yaml names it. */
export const hasLeft = ({
  state,
  draining_until,
}: Pick<ReplicaEntry, 'state' | 'draining_until'>): boolean =>
  draining_until !== null && state === 'away';

const isAnother = ({ instance }: ReplicaEntry, joins: Join): boolean =>
  joins.instance !== null && instance !== joins.instance;

const isElsewhere = ({ owner, control_url }: ReplicaEntry, joins: Join): boolean =>
  owner !== null && control_url !== joins.control_url;

/** An open transfer goes on without one that joins anew, which needs nothing of what its predecessor did. */
export function withJoin(
  record: PolicyRecord,
  { joins, owner, at }: { joins: Join; owner: string; at: number },
): PolicyRecord {
  const { url: replica, control_url, instance } = joins;
  const entry = record.replicas[replica];
  if (entry === undefined)
    return withJoined(record, { replica, owner, control_url, instance, away_since: at });
  const whose = entry.owner === null || owner === JOINED ? entry.owner : owner;
  const where = entry.owner === null ? entry.control_url : control_url;
  const isBack = entry.draining_until !== null && entry.state !== 'current';
  if (isBack || isAnother(entry, joins) || isElsewhere(entry, joins)) {
    const named = {
      instance: instance ?? entry.instance,
      owner: whose,
      control_url: where,
      away_since: at,
    };
    const needs = isAnother(entry, joins) ? null : fieldsOf(entry).needs;
    return withoutTicketEngine(withJoined(record, { replica, ...named, needs }), replica);
  }
  if (entry.draining_until === null && entry.owner === whose) return record;
  return withFields(record, { replica, owner: whose, draining_until: null });
}

const stays = ({ draining_until, examined }: ReplicaEntry): boolean =>
  draining_until === null && examined;

/** Why a replica may not drain or leave; null: it may. */
export function refusalOfLeave(
  { replicas }: Pick<PolicyRecord, 'replicas'>,
  { url, force }: { url: string; force: boolean },
): string | null {
  if (replicas[url] === undefined)
    return `url: expected one of ${Object.keys(replicas).join(', ') || 'no replicas'}, got ${url}`;
  const others = Object.entries(replicas).filter(([other, entry]) => other !== url && stays(entry));
  if (force || others.length > 0) return null;
  return `url: expected a replica beside which others stay, got the last one, ${url}; with force it goes all the same`;
}

/** It gets no new request. Its epoch stays: what it samples until then is what it was. */
export function withDrain(
  record: PolicyRecord,
  { url, until }: { url: string; until: number },
): PolicyRecord {
  const entry = record.replicas[url];
  if (entry === undefined || entry.draining_until !== null) return record;
  return withoutTicketEngine(withFields(record, { replica: url, draining_until: until }), url);
}

const NAMED_BY_FILE = 'it has left; temporal.yaml names it, so it may join again';

export function withoutReplica(
  record: PolicyRecord,
  { url, at }: { url: string; at: number },
): PolicyRecord {
  const entry = record.replicas[url];
  if (entry === undefined) return record;
  if (entry.owner === null) {
    const draining_until = Math.min(at, entry.draining_until ?? at);
    if (hasLeft(entry)) return record;
    const left = withReplica(record, {
      replica: url,
      state: 'away',
      fault: NAMED_BY_FILE,
      draining_until,
    });
    return withoutTicketEngine(left, url);
  }
  const others = Object.entries(record.replicas).filter(([other]) => other !== url);
  const without = withoutTicketEngine(record, url);
  return withIdentity({ ...without, replicas: Object.fromEntries(others) });
}

/** What replicas have in common is forgotten with the last one. */
const withIdentity = (record: PolicyRecord): PolicyRecord =>
  Object.values(record.replicas).some(({ examined }) => examined)
    ? record
    : { ...record, identity: null };

export function refusalOfEngines(
  { replicas }: Pick<PolicyRecord, 'replicas'>,
  { owner, urls }: Engines,
): string | null {
  const foreign = urls.flatMap(({ url }) => {
    const whose = replicas[url]?.owner ?? null;
    return whose === null || whose === JOINED || whose === owner ? [] : [`${url} of ${whose}`];
  });
  if (foreign.length === 0) return null;
  return `urls: expected engines that no other owner has listed, got ${foreign.join(', ')}. Their owner removes them with an empty list and force`;
}

/** The record with an owner's list: new ones join, the owner's others leave. */
export function withEngines(
  record: PolicyRecord,
  { engines: { owner, urls, replace }, at }: { engines: Engines; at: number },
): PolicyRecord {
  const joined = urls.reduce((next, joins) => withJoin(next, { joins, owner, at }), record);
  const listed = new Set(urls.map(({ url }) => url));
  const gone = Object.entries(joined.replicas).filter(
    ([url, entry]) => replace && entry.owner === owner && !listed.has(url),
  );
  return gone.reduce((next, [url]) => withoutReplica(next, { url, at }), joined);
}

/** Without replicas that have drained, or been away for too long. One that a transfer found away is timed from here. */
export function withoutOverdue(
  record: PolicyRecord,
  { at, forget_after_ms }: { at: number; forget_after_ms: number | null },
): PolicyRecord {
  const isOver = (entry: ReplicaEntry): boolean => {
    const { draining_until, away_since, owner } = fieldsOf(entry);
    if (draining_until !== null) return draining_until <= at && !hasLeft(entry);
    if (owner === null || forget_after_ms === null || away_since === null) return false;
    return away_since + forget_after_ms <= at;
  };
  const isCounted = (entry: ReplicaEntry): boolean =>
    entry.state !== 'away' ||
    entry.owner === null ||
    forget_after_ms === null ||
    entry.away_since !== null;
  return Object.entries(record.replicas).reduce((next, [url, entry]) => {
    if (isOver(entry)) return withoutReplica(next, { url, at });
    return isCounted(entry) ? next : withFields(next, { replica: url, away_since: at });
  }, record);
}

/** Why a joiner is not what the others are; null: it is. */
export function identityProblem(
  own: EngineIdentity,
  { model, max_model_len, tokenizer }: EngineIdentity,
): string | null {
  if (own.model !== model) return `expected model ${preview(model)}, got ${preview(own.model)}`;
  if (own.max_model_len !== max_model_len)
    return `expected max_model_len ${max_model_len ?? 'unknown'}, as the others have, got ${own.max_model_len ?? 'unknown'}`;
  if (own.tokenizer !== tokenizer)
    return 'expected the tokenizer and chat template of the others, got other ids for the same texts';
  return null;
}

export const sameIdentity = (a: EngineIdentity, b: EngineIdentity): boolean =>
  identityProblem(a, b) === null && a.logprobs_mode === b.logprobs_mode;

/** Whether updates ask it. One that has joined is examined first, and one that leaves gets nothing any more. */
export function isMeant(record: PolicyRecord | null, replica: string): boolean {
  const entry = record?.replicas[replica];
  return entry === undefined || stays(entry);
}
