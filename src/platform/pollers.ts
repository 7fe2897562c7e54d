/** temporal.api.enums.v1.TaskQueueType, which none of the SDK's packages exports. */
const TYPES = { workflow: 1, activity: 2 } as const;

/** How often a worker reports to a server that takes reports; the SDK's own default is 60 s. */
export const REPORTS_EVERY_S = 10;
/** A worker that waits for tasks asks again after this time; the server lists one that died for minutes. */
const ASKS_EVERY_S = 60;
/** A sign of life may be late by this. */
const LATE_S = 15;

export interface TaskQueue {
  name: string;
  type: keyof typeof TYPES;
}

/** The last sign of life of a queue's workers: a question for tasks, or a report. */
export interface Sign {
  /** In seconds. */
  ago: number;
  /** The longest time between two signs of one that runs, in seconds. */
  every: number;
}

type Time = { seconds?: unknown } | null;

/** The part of a poller that says when it last asked, and who it is. */
interface Poller {
  lastAccessTime?: Time;
  identity?: string | null;
}

/** The part of a worker that says when it last reported. */
interface Reporter {
  workerHeartbeat?: { heartbeatTime?: Time } | null;
}

/** What is used of the SDK's `workflowService`. */
interface Server {
  describeTaskQueue(question: {
    namespace: string;
    taskQueue: { name: string };
    taskQueueType: (typeof TYPES)[TaskQueue['type']];
    reportStats?: boolean;
  }): Promise<{
    pollers: readonly Poller[];
    stats?: { approximateBacklogCount?: unknown } | null;
  }>;
  listWorkers(question: {
    namespace: string;
    query: string;
    pageSize: number;
  }): Promise<{ workersInfo: readonly Reporter[] }>;
}

/** The last sign of life of a worker on this queue; null: none is known. */
export async function lastSign(
  server: Server,
  { namespace, name, type }: TaskQueue & { namespace: string },
): Promise<Sign | null> {
  const question = { namespace, taskQueue: { name }, taskQueueType: TYPES[type] };
  const query = `TaskQueue = '${name.replaceAll("'", "''")}' AND Status = 'Running'`;
  const [{ pollers }, { workersInfo }] = await Promise.all([
    server.describeTaskQueue(question),
    // An older server has no such call. The poll is the only sign there.
    server.listWorkers({ namespace, query, pageSize: 1000 }).catch(() => ({ workersInfo: [] })),
  ]);
  return signOf({ pollers, reporters: workersInfo }, Date.now());
}

/** How many tasks of this queue wait for a worker, about; null: the server does not say. */
export async function backlogOf(
  server: Pick<Server, 'describeTaskQueue'>,
  { namespace, name, type }: TaskQueue & { namespace: string },
): Promise<number | null> {
  const question = { namespace, taskQueue: { name }, taskQueueType: TYPES[type] };
  const { stats } = await server.describeTaskQueue({ ...question, reportStats: true });
  return stats ? Number(stats.approximateBacklogCount ?? 0) : null;
}

/** The latest counts. `now`: milliseconds since 1970. */
export function signOf(
  { pollers, reporters }: { pollers: readonly Poller[]; reporters: readonly Reporter[] },
  now: number,
): Sign | null {
  const times = [
    ...pollers.map(({ lastAccessTime }) => lastAccessTime),
    ...reporters.map(({ workerHeartbeat }) => workerHeartbeat?.heartbeatTime),
  ];
  if (times.length === 0) return null;
  const last = Math.max(...times.map((time) => Number(time?.seconds ?? 0)));
  // Other clocks may be ahead of this one.
  const ago = Math.max(0, Math.round(now / 1000 - last));
  return { ago, every: reporters.length === 0 ? ASKS_EVERY_S : REPORTS_EVERY_S };
}

/** Certain, whatever the server takes: a live worker may be silent for longer only where it does not report. */
export const isAlive = (sign: Sign | null): boolean =>
  sign !== null && sign.ago <= REPORTS_EVERY_S + LATE_S;

/** Not overdue: none is missing yet. */
export const mayBeAlive = (sign: Sign | null): sign is Sign =>
  sign !== null && sign.ago <= sign.every + LATE_S;

const SERVES = '/generation=';
/** Temporal keeps it in each history, twice a workflow task. */
const MOST_OF_NAMES = 120;

/** A worker's name on the server: the SDK's own, and which generation services it has. */
export function workerIdentity(
  { pid, host }: { pid: number; host: string },
  services: readonly string[],
): string {
  const names = services.map(encodeURIComponent).join(',');
  return `${pid}@${host}${names.length > MOST_OF_NAMES ? '' : `${SERVES}${names}`}`;
}

/** The generation services of a queue's workers; null: none runs, or one does not say what it has. */
export async function servicesOf(
  server: Pick<Server, 'describeTaskQueue'>,
  { namespace, name }: { namespace: string; name: string },
): Promise<string[] | null> {
  const question = { namespace, taskQueue: { name }, taskQueueType: TYPES.workflow };
  const { pollers } = await server.describeTaskQueue(question);
  const served = pollers.map(({ identity }) => identity?.split(SERVES)[1]);
  if (served.length === 0 || served.includes(undefined)) return null;
  const names = served.flatMap((one) => (one ?? '').split(',')).filter((one) => one !== '');
  return [...new Set(names.map(decodeURIComponent))].toSorted();
}
