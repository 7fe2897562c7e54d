import { Fault } from '../../model/faults.js';
import type { PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import type { PolicyView, ReplicaView } from '../../model/workflow-safe/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';

export function policyOf(
  service: string,
  { policy, known }: Pick<Dependencies, 'policy' | 'known'>,
): PolicyService {
  const found = policy(service);
  if (found !== undefined) return found;
  const got = JSON.stringify(service);
  throw refused(`service: expected one of ${known.services.join(', ')}, got ${got}`);
}

export const refused = (message: string): Fault =>
  new Fault({ type: 'PolicyUpdateFailed', message });

/** The record as histories have it: without probes, and with faults as one short line. */
export function viewOf(record: PolicyRecord | null): PolicyView {
  const { epoch = -1, version = null, target = null, weights = {}, replicas = {} } = record ?? {};
  return {
    epoch,
    version,
    target,
    weights: Object.fromEntries(
      Object.entries(weights).map(
        ([
          name,
          {
            weights: { kind, path },
          },
        ]) => [name, { kind, path }],
      ),
    ),
    replicas: Object.fromEntries(
      Object.entries(replicas).map(([url, entry]) => [url, replicaView(entry)]),
    ),
  };
}

/** Fifty replicas are in each view, so it has only what is not usual. */
function replicaView(entry: ReplicaEntry): ReplicaView {
  const { state, version, epoch, paused_until, fault } = entry;
  const { needs, owner, instance, examined, draining_until, away_since } = entry;
  return {
    state,
    version,
    epoch,
    paused_until,
    fault: fault?.slice(0, MOST_OF_FAULT) ?? null,
    ...(needs !== null && { needs }),
    ...(owner !== null && { owner }),
    ...(instance !== null && { instance }),
    ...(!examined && { examined: false }),
    ...(draining_until !== null && { draining_until }),
    ...(away_since !== null && { away_since }),
  };
}

const MOST_OF_FAULT = 300;
