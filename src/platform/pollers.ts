/** temporal.api.enums.v1.TaskQueueType, which none of the SDK's packages exports. */
const TYPES = { workflow: 1, activity: 2 } as const;

/** A worker that waits for tasks asks again after 60 s; the server lists one that died for minutes. */
export const ASKS_WITHIN_S = 75;

export interface TaskQueue {
  name: string;
  type: keyof typeof TYPES;
}

/** The part of a poller that says when it last asked. */
interface Poller {
  lastAccessTime?: { seconds?: unknown } | null;
}

/** What is used of the SDK's `workflowService`. */
interface Server {
  describeTaskQueue(question: {
    namespace: string;
    taskQueue: { name: string };
    taskQueueType: (typeof TYPES)[TaskQueue['type']];
  }): Promise<{ pollers: readonly Poller[] }>;
}

/** Seconds since a worker last asked for tasks of this queue; null: none is known. */
export async function lastAsked(
  server: Server,
  { namespace, name, type }: TaskQueue & { namespace: string },
): Promise<number | null> {
  const question = { namespace, taskQueue: { name }, taskQueueType: TYPES[type] };
  return secondsSince((await server.describeTaskQueue(question)).pollers, Date.now());
}

/** The worker that asked last counts. `now`: milliseconds since 1970. */
export function secondsSince(pollers: readonly Poller[], now: number): number | null {
  if (pollers.length === 0) return null;
  const asked = pollers.map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0));
  // The server's clock may be ahead of this one.
  return Math.max(0, Math.round(now / 1000 - Math.max(...asked)));
}
