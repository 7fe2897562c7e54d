import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';

/** What a history takes of a server. */
export interface HistoryCost {
  events: number;
  bytes: number;
  /** Temporal Cloud's. Heartbeats and queries are in no history, and come on top. */
  actions: number;
}

export const over = ({ events, bytes, actions }: HistoryCost, n: number): HistoryCost => ({
  events: events / n,
  bytes: bytes / n,
  actions: actions / n,
});

export const less = (a: HistoryCost, b: HistoryCost): HistoryCost => ({
  events: a.events - b.events,
  bytes: a.bytes - b.bytes,
  actions: a.actions - b.actions,
});

type Event = NonNullable<
  Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>['events']
>[number];

/**
 * Events that Temporal Cloud bills as one action each (docs.temporal.io/cloud/actions). Each attempt of an activity is
 * one, and a signal is counted where it arrives; other markers than patches do not occur.
 */
const ACTIONS: readonly (keyof Event)[] = [
  'workflowExecutionStartedEventAttributes',
  'timerStartedEventAttributes',
  'workflowExecutionSignaledEventAttributes',
  'upsertWorkflowSearchAttributesEventAttributes',
  'workflowExecutionUpdateAcceptedEventAttributes',
];

export const actionsIn = (events: readonly Event[]): number =>
  events.reduce((sum, event) => {
    const { attempt } = event.activityTaskStartedEventAttributes ?? {};
    const own = ACTIONS.some((name) => event[name] !== null && event[name] !== undefined) ? 1 : 0;
    return sum + own + (attempt ?? 0);
  }, 0);

/** So many are read of each type. */
const MOST = 16;
const LISTED_WITHIN_MS = 20_000;

/** Ended workflows of a type whose ids begin so. */
export interface Histories {
  type: string;
  begin: string;
}

export async function historyCosts(
  { workflow }: Client,
  { type, begin }: Histories,
): Promise<HistoryCost[]> {
  const query = `WorkflowType = "${type}" AND WorkflowId STARTS_WITH "${begin}"`;
  const of = async (which: string): Promise<HistoryCost[]> => {
    const costs: HistoryCost[] = [];
    for await (const { workflowId, runId, historySize = 0 } of workflow.list({ query: which })) {
      const { events } = await workflow.getHandle(workflowId, runId).fetchHistory();
      const all = events ?? [];
      costs.push({ events: all.length, bytes: historySize, actions: actionsIn(all) });
      if (costs.length === MOST) break;
    }
    return costs;
  };
  // The list learns of an end a little later.
  for (const end = performance.now() + LISTED_WITHIN_MS; performance.now() < end;) {
    const { count } = await workflow.count(`${query} AND ExecutionStatus = "Running"`);
    const costs = await of(`${query} AND ExecutionStatus != "Running"`);
    if (count === 0 && costs.length > 0) return costs;
    await sleep(500);
  }
  throw new Error(`expected ended workflows of type ${type}, got none`);
}
