import type { Client } from '@temporalio/client';

const TYPES = { batch: 'rolloutBatch', slice: 'rolloutSlice', rollout: 'rollout' } as const;

export interface HistorySize {
  /** Workflows of this type. */
  count: number;
  /** The length of the largest history. */
  events: number;
  kb: number;
}
export type HistorySizes = Record<keyof typeof TYPES, HistorySize>;

/** The largest history of each workflow type, as the server reports it for ended workflows. */
export async function historySizes({ workflow }: Client): Promise<HistorySizes> {
  const sizeOf = async (type: string): Promise<HistorySize> => {
    const size: HistorySize = { count: 0, events: 0, kb: 0 };
    for await (const { historyLength, historySize } of workflow.list({
      query: `WorkflowType = "${type}"`,
    })) {
      size.count += 1;
      size.events = Math.max(size.events, historyLength);
      size.kb = Math.max(size.kb, (historySize ?? 0) / 1024);
    }
    return size;
  };
  return {
    batch: await sizeOf(TYPES.batch),
    slice: await sizeOf(TYPES.slice),
    rollout: await sizeOf(TYPES.rollout),
  };
}

export interface ClosingTimes {
  /** Each slice's closing pass over its own rows, from its history: scheduled to completed. */
  slices_s: number[];
  /** The batch's pass: joins the parts, computes the metrics. */
  batch_s: number;
}

export async function closingTimes({ workflow }: Client): Promise<ClosingTimes> {
  const times = { closeSlice: [] as number[], closeBatch: [] as number[] };
  for (const type of [TYPES.slice, TYPES.batch]) {
    for await (const { workflowId } of workflow.list({ query: `WorkflowType = "${type}"` })) {
      const history = await workflow.getHandle(workflowId).fetchHistory();
      const events = history.events ?? [];
      for (const { activityTaskCompletedEventAttributes: completed, eventTime } of events) {
        const id = completed?.scheduledEventId?.toString();
        const scheduled = events.find(({ eventId }) => eventId?.toString() === id);
        const name = scheduled?.activityTaskScheduledEventAttributes?.activityType?.name;
        if (name !== 'closeSlice' && name !== 'closeBatch') continue;
        times[name].push(secondsOf(eventTime) - secondsOf(scheduled?.eventTime));
      }
    }
  }
  return { slices_s: times.closeSlice, batch_s: times.closeBatch[0] ?? 0 };
}

const secondsOf = (
  time: { seconds?: { toString(): string } | null; nanos?: number | null } | null | undefined,
): number => Number(time?.seconds?.toString() ?? 0) + (time?.nanos ?? 0) / 1e9;
