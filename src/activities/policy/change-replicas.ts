import type { Change, PolicyRecord } from '../../model/policy/record.js';
import { firstRecord, withReplicas } from '../../model/policy/record.js';
import {
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
  withoutOverdue,
} from '../../model/policy/replicas.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, policyOf, refused } from './policy-view.js';

/**
 * Updates `engines`, `join`, `drain` and `leave`: changes which replicas the record has, and touches none. A joiner is
 * examined afterwards, before anything else is asked of it.
 */
export function createChangeReplicas(
  dependencies: Dependencies,
): PolicyActivities['changeReplicas'] {
  return ({ service, name, input }) =>
    dependencies.attempt(async () => {
      const policy = policyOf(service, dependencies);
      const decide = await CHANGES[name](input, { service, policy, dependencies });
      const record = await policy.records.change((before) => {
        const { urls } = policy;
        const now = withReplicas(before ?? firstRecord(urls), urls);
        const next = decide(now);
        return next === before ? null : next;
      });
      return viewOf(record);
    });
}

interface Context {
  service: string;
  policy: PolicyService;
  dependencies: Dependencies;
}

type Decide = (record: PolicyRecord) => ReturnType<Change>;

const CHANGES = {
  join: async (input: unknown, context: Context): Promise<Decide> => {
    const joins = inputOf('join', { schema: Join, input });
    await checkAllowed([joins], { ...context, name: 'join' });
    return (record) => withJoin(record, { joins, owner: JOINED, at: commonMs() });
  },
  engines: async (input: unknown, context: Context): Promise<Decide> => {
    const engines = inputOf('engines', { schema: Engines, input });
    await checkAllowed(engines.urls, { ...context, name: 'engines' });
    return (record) => {
      check('engines', refusalOfEngines(record, engines));
      return withEngines(record, { engines, at: commonMs() });
    };
  },
  drain: (input: unknown): Promise<Decide> => {
    const { url, drain_limit, force } = inputOf('drain', { schema: Drain, input });
    const until = commonMs() + toMs(drain_limit);
    return Promise.resolve((record) => {
      check('drain', refusalOfLeave(record, { url, force }));
      return withDrain(record, { url, until });
    });
  },
  leave: (input: unknown): Promise<Decide> => {
    const { url, force } = inputOf('leave', { schema: Leave, input });
    return Promise.resolve((record) => {
      // An engine that ends says so without knowing whether it was told to leave before.
      if (record.replicas[url] === undefined) return record;
      check('leave', refusalOfLeave(record, { url, force }));
      return withoutReplica(record, { url, at: commonMs() });
    });
  },
};

function check(name: string, refusal: string | null): void {
  if (refusal !== null) throw refused(`${name}: ${refusal}`);
}

/** Whoever may start workflows must not be able to send prompts and keys anywhere, nor one service another's. */
async function checkAllowed(
  joiners: readonly Join[],
  { service, policy, dependencies, name }: Context & { name: string },
): Promise<void> {
  const owners = await engineOwners(dependencies);
  for (const { url, control_url } of joiners) {
    const owner = owners.get(url) ?? service;
    if (owner !== service)
      throw refused(`${name}: expected an engine of no other service, got ${url} of ${owner}`);
    for (const one of [url, ...(control_url === null ? [] : [control_url])]) {
      const refusal = await policy.refusalOf(one);
      if (refusal !== null) throw refused(`${name}: ${one}: ${refusal}`);
    }
  }
}

/** The service of each engine. */
async function engineOwners({ known, policy }: Dependencies): Promise<Map<string, string>> {
  const owners = new Map<string, string>();
  for (const service of known.services) {
    const of = policy(service);
    const record = (await of?.records.latest()) ?? null;
    for (const url of [...(of?.urls ?? []), ...Object.keys(record?.replicas ?? {})])
      owners.set(url, service);
  }
  return owners;
}

/** An update is one activity a replica: its beats cost little, and an engine may be paused meanwhile. */
const MOST_HEARTBEAT_MS = 10_000;

export function createSurveyReplicas(
  dependencies: Dependencies,
): PolicyActivities['surveyReplicas'] {
  return ({ service }) =>
    dependencies.attempt(async () => {
      const { records, urls, forget_after_ms } = policyOf(service, dependencies);
      const record = await records.change((before) => {
        if (before === null) return null;
        const named = withReplicas(before, urls);
        const next = withoutOverdue(named, { at: commonMs(), forget_after_ms });
        return next === before ? null : next;
      });
      const heartbeat_timeout_ms = Math.min(
        MOST_HEARTBEAT_MS,
        dependencies.deployment.heartbeat_timeout_ms,
      );
      return { heartbeat_timeout_ms, view: record && viewOf(record) };
    });
}
