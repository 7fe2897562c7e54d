import type { PolicyView, ReplicaView } from '../results/answers.js';
import { toMs } from '../workflow-safe/durations.js';
import type { TicketView } from '../workflow-safe/policy.js';
import { deletablePaths } from './adapters.js';
import type { Holding, PolicyRecord, Published, ReplicaEntry, Ticket } from './record.js';
import { fieldsOf, firstRecord } from './record.js';
import { pathOf } from './target.js';

/** The record as histories have it: without probes, with faults as one short line, and with nothing that is usual. */
export function viewOf(given: PolicyRecord | null): PolicyView {
  const record = given ?? firstRecord([]);
  const { epoch, version, target, weights, replicas, sleep, transfers, holding } = record;
  const may_delete = deletablePaths(record);
  return {
    epoch,
    version,
    target,
    weights: mapped(weights, weightsView),
    replicas: mapped(replicas, replicaView),
    ...unusual({
      ticket: transfers.open && ticketView(transfers.open),
      sleep,
      may_delete: may_delete.length > 0 ? may_delete : null,
      ...holdingView(holding),
    }),
  };
}

const mapped = <T, V>(all: Record<string, T>, view: (one: T) => V): Record<string, V> =>
  Object.fromEntries(Object.entries(all).map(([name, one]) => [name, view(one)]));

const unusual = <T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };

const weightsView = (published: Published): PolicyView['weights'][string] => ({
  kind: published.weights.kind,
  ...unusual({ path: pathOf(published), base: published.lora?.base ?? null }),
});

function holdingView({ hold, courses }: Holding) {
  if (hold === null) return { courses: courses.length > 0 ? courses : null };
  const { took_from, ...rest } = hold;
  return { hold: { ...rest, ...unusual({ took_from }) }, courses };
}

function replicaView(entry: ReplicaEntry): ReplicaView {
  const { state, version, epoch, paused_until, fault, examined, slept, ...rest } = fieldsOf(entry);
  const { needs, owner, instance, draining_until, away_since } = rest;
  return {
    ...{ state, version, epoch, paused_until, fault: fault?.slice(0, MOST_OF_FAULT) ?? null },
    ...unusual({ needs, owner, instance, draining_until, away_since, slept: slept && slept.level }),
    ...(!examined && { examined }),
  };
}

const ticketView = ({ nonce, version, holder, paused_until, ...ticket }: Ticket): TicketView => ({
  nonce,
  version,
  holder,
  paused_until,
  stall_ms: toMs(ticket.stall_limit),
  engines: ticket.engines.map(({ url }) => url),
});

const MOST_OF_FAULT = 300;
