import { toMs } from '../workflow-safe/durations.js';
import type { PolicyView, ReplicaView, TicketView } from '../workflow-safe/policy.js';
import { deletablePaths } from './adapters.js';
import type { Holding } from './holder.js';
import { NO_HOLDING } from './holder.js';
import type { PolicyRecord, ReplicaEntry } from './record.js';
import { pathOf } from './record.js';
import type { Ticket } from './ticket.js';

/** The record as histories have it: without probes, and with faults as one short line. */
export function viewOf(record: PolicyRecord | null): PolicyView {
  const { epoch = -1, version = null, target = null, weights = {}, replicas = {} } = record ?? {};
  const open = record?.transfers.open ?? null;
  const may_delete = record === null ? [] : deletablePaths(record);
  return {
    epoch,
    version,
    target,
    weights: Object.fromEntries(
      Object.entries(weights).map(([name, published]) => {
        const path = pathOf(published);
        const base = published.lora?.base ?? null;
        return [
          name,
          {
            kind: published.weights.kind,
            ...(path !== null && { path }),
            ...(base !== null && { base }),
          },
        ];
      }),
    ),
    replicas: Object.fromEntries(
      Object.entries(replicas).map(([url, entry]) => [url, replicaView(entry)]),
    ),
    ...(open !== null && { ticket: ticketView(open) }),
    ...(record != null && record.sleep !== null && { sleep: record.sleep }),
    ...(may_delete.length > 0 && { may_delete }),
    ...holdingView(record?.holding ?? NO_HOLDING),
  };
}

function holdingView({ hold, courses }: Holding): Pick<PolicyView, 'hold' | 'courses'> {
  if (hold === null) return courses.length > 0 ? { courses } : {};
  const { took_from, ...rest } = hold;
  return { hold: { ...rest, ...(took_from !== null && { took_from }) }, courses };
}

/** Fifty replicas are in each view, so it has only what is not usual. */
function replicaView(entry: ReplicaEntry): ReplicaView {
  const { state, version, epoch, paused_until, fault } = entry;
  const { needs, owner, instance, examined, draining_until, away_since, slept } = entry;
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
    ...(slept !== null && { slept: slept.level }),
  };
}

function ticketView(open: Ticket): TicketView {
  const { nonce, version, holder, paused_until, stall_limit, engines } = open;
  const urls = engines.map(({ url }) => url);
  return { nonce, version, holder, paused_until, stall_ms: toMs(stall_limit), engines: urls };
}

const MOST_OF_FAULT = 300;
