import {
  withoutOverdue,
  Drain,
  Engines,
  Join,
  JOINED,
  Leave,
  refusalOfEngines,
  refusalOfLeave,
  withDrain,
  withEngines,
  withJoin,
  withoutReplica,
  withReplicas,
} from '../../model/policy/replicas.js';
import { refusalOfRelease, released } from '../../model/policy/holding.js';
import { Release } from '../../model/policy/orders.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { firstRecord } from '../../model/policy/record.js';
import { refusalWhileOpen } from '../../model/policy/tickets.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { Order, Ordering } from './policy-service.js';
import { check, inputOf, refused } from './policy-service.js';

/**
 * Orders that change which replicas the record has, or who holds it, and touch none. A joiner is examined afterwards,
 * before anything else is asked of it.
 */

export const join: Order = async (input, ordering) => {
  const joins = inputOf('join', { schema: Join, input });
  await checkAllowed([joins], { ordering, name: 'join' });
  return await changed(ordering, (record) =>
    withJoin(record, { joins, owner: JOINED, at: commonMs() }),
  );
};

export const engines: Order = async (input, ordering) => {
  const listed = inputOf('engines', { schema: Engines, input });
  await checkAllowed(listed.urls, { ordering, name: 'engines' });
  return await changed(ordering, (record) => {
    check(of('engines', refusalOfEngines(record, listed)));
    return withEngines(record, { engines: listed, at: commonMs() });
  });
};

export const drain: Order = async (input, ordering) => {
  const { url, drain_limit, force } = inputOf('drain', { schema: Drain, input });
  const until = commonMs() + toMs(drain_limit);
  return await changed(ordering, (record) => {
    check(of('drain', refusalOfLeave(record, { url, force })));
    return withDrain(record, { url, until });
  });
};

export const leave: Order = async (input, ordering) => {
  const { url, force } = inputOf('leave', { schema: Leave, input });
  return await changed(ordering, (record) => {
    // An engine that ends says so without knowing whether it was told to leave before.
    if (record.replicas[url] === undefined) return record;
    check(of('leave', refusalOfLeave(record, { url, force })));
    return withoutReplica(record, { url, at: commonMs() });
  });
};

async function changed(
  { policy: { records, urls } }: Ordering,
  decide: (record: PolicyRecord) => PolicyRecord,
): ReturnType<Order> {
  const record = await records.change((before) => {
    const next = decide(withReplicas(before ?? firstRecord(urls), urls));
    return next === before ? null : next;
  });
  return { record };
}

const of = (name: string, refusal: string | null): string | null =>
  refusal && `${name}: ${refusal}`;

/** Whoever may start workflows must not be able to send prompts and keys anywhere, nor one service another's. */
async function checkAllowed(
  joiners: readonly Join[],
  { ordering: { service, policy, dependencies }, name }: { ordering: Ordering; name: string },
): Promise<void> {
  const owners = new Map<string, string>();
  for (const any of dependencies.known.services) {
    const { urls = [], records } = dependencies.policy(any) ?? {};
    const record = await records?.latest();
    for (const url of [...urls, ...Object.keys(record?.replicas ?? {})]) owners.set(url, any);
  }
  for (const { url, control_url } of joiners) {
    const owner = owners.get(url) ?? service;
    if (owner !== service)
      throw refused(`${name}: expected an engine of no other service, got ${url} of ${owner}`);
    for (const one of [url, ...(control_url === null ? [] : [control_url])]) {
      check(of(`${name}: ${one}`, await policy.refusalOf(one)));
    }
  }
}

/** Its holder, or an operator, lets others bring weights. */
export const release: Order = async (input, { policy }) => {
  const given = inputOf('release', { schema: Release, input });
  const record = await policy.records.change((now) => {
    check(refusalOfRelease(now, given) ?? refusalWhileOpen(now));
    return now === null || now.holding.hold === null ? null : released(now);
  });
  return { record };
};

/** An update is one activity a replica: its beats cost little, and an engine may be paused meanwhile. */
const MOST_HEARTBEAT_MS = 10_000;

/** The record, for the replicas that temporal.yaml has now; null: nothing was ever published. */
export const survey: Order = async (_, { policy, dependencies: { deployment } }) => {
  const { records, urls, forget_after_ms } = policy;
  const record = await records.change((before) => {
    if (before === null) return null;
    const next = withoutOverdue(withReplicas(before, urls), { at: commonMs(), forget_after_ms });
    return next === before ? null : next;
  });
  return { record, heartbeat_ms: Math.min(MOST_HEARTBEAT_MS, deployment.heartbeat_timeout_ms) };
};
