import type { Connection } from '@temporalio/client';
import type { StoreIds } from '../trajectories/trajectory-store.js';
import { commonMs } from '../platform/waits/common-clock.js';
import { onTaskQueue } from './workflow-status.js';

type Server = Connection['workflowService'];

/** temporal.api.enums.v1.TaskQueueType, which none of the SDK's packages exports. */
const TYPES = { workflow: 1, activity: 2 };

/** How often a worker reports to a server that takes reports; the SDK's own default is 60 s. */
export const REPORTS_EVERY_S = 2;
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
  /** Whose it was, for people, such as `4711@gpu-3`; null: the server does not say. */
  worker: string | null;
}

/** The calls of the SDK's `workflowService` that this room uses. */
export type PollerServer = Pick<Server, 'describeTaskQueue' | 'listWorkers'>;
type Poller = Awaited<ReturnType<Server['describeTaskQueue']>>['pollers'][number];
type Reporter = Awaited<ReturnType<Server['listWorkers']>>['workersInfo'][number];

interface Workers {
  pollers: readonly Poller[];
  reporters: readonly Reporter[];
}

/** The last sign of life of a worker on this queue; null: none is known. */
export const lastSign = async (server: PollerServer, queue: AskedQueue): Promise<Sign | null> =>
  signOf(await workersOf(server, queue), commonMs());

interface AskedQueue extends TaskQueue {
  namespace: string;
}
export type Describing = Pick<PollerServer, 'describeTaskQueue'>;

export function described(
  server: Describing,
  { name, type, ...asked }: AskedQueue & { reportStats?: true },
) {
  const question = { ...asked, taskQueue: { name }, taskQueueType: TYPES[type] as never };
  return server.describeTaskQueue(question);
}

async function workersOf(server: PollerServer, queue: AskedQueue): Promise<Workers> {
  const { namespace, name } = queue;
  const query = runningOn([name]);
  const [{ pollers }, { workersInfo }] = await Promise.all([
    described(server, queue),
    // An older server has no such call. The poll is the only sign there.
    server.listWorkers({ namespace, query, pageSize: 1000 }).catch(() => ({ workersInfo: [] })),
  ]);
  return { pollers, reporters: workersInfo };
}

const anyOn = (queues: readonly string[]): string => `(${queues.map(onTaskQueue).join(' OR ')})`;
const runningOn = (queues: readonly string[]): string => `${anyOn(queues)} AND Status = 'Running'`;

/** The last report of a process whose workers run on some queue. */
export interface Report {
  /** The common part of its workers' identities. */
  process: string;
  /** Differs from report to report; no time to compare with, since it is of the worker's clock. */
  at: string;
}

/**
 * The reports of all workers that run on these queues. A worker that was killed stays among them for long.
 * `also_ended`: of those that have said their end, too.
 */
export async function reportsOf(
  server: Pick<PollerServer, 'listWorkers'>,
  {
    namespace,
    queues,
    also_ended = false,
  }: { namespace: string; queues: readonly string[]; also_ended?: boolean },
): Promise<Report[]> {
  const reports = new Map<string, Report>();
  let nextPageToken: Uint8Array | null = new Uint8Array();
  while (nextPageToken) {
    const query = also_ended ? anyOn(queues) : runningOn(queues);
    const question = { namespace, query, pageSize: 1000, nextPageToken };
    const page: Awaited<ReturnType<Server['listWorkers']>> = await server.listWorkers(question);
    for (const { workerHeartbeat } of page.workersInfo) {
      const { heartbeatTime, workerIdentity } = workerHeartbeat ?? {};
      const process = processOf(workerIdentity ?? '');
      const at = `${secondsOf(heartbeatTime)}.${String(heartbeatTime?.nanos ?? 0).padStart(9, '0')}`;
      const before = reports.get(process);
      // Its workers report together, except for one that has ended alone.
      if (before === undefined || before.at < at) reports.set(process, { process, at });
    }
    nextPageToken = page.nextPageToken.length > 0 ? page.nextPageToken : null;
  }
  return [...reports.values()];
}

/** The processes that have asked for tasks of a queue lately; those that have ended are among them for minutes. */
export const askersOf = async (server: Describing, queue: AskedQueue): Promise<string[]> =>
  (await described(server, queue)).pollers.map((one) => processOf(ofPoller(one)));

/** How many tasks of this queue wait for a worker, about; null: the server does not say. */
export async function backlogOf(server: Describing, queue: AskedQueue): Promise<number | null> {
  const { stats } = await described(server, { ...queue, reportStats: true });
  return stats ? Number(stats.approximateBacklogCount ?? 0) : null;
}

export interface LivingWorker {
  identity: string;
  /** When its last sign came, in seconds since 1970; it grows only if it is alive. */
  seen: number;
  /** Whether the server lists it as running; one that only asked may have stopped since. */
  reports: boolean;
}

/** The living workers of a queue. Where workers report, one that only polled has stopped, or is of an older release. */
export async function livingWorkers(
  server: PollerServer,
  queue: AskedQueue,
): Promise<LivingWorker[]> {
  const { pollers, reporters } = await workersOf(server, queue);
  const now = commonMs();
  const known = reporters.length > 0 ? reporters.map(ofReporter) : pollers.map(ofPoller);
  return [...new Set(known)].flatMap((identity) => {
    const own = {
      pollers: pollers.filter((one) => ofPoller(one) === identity),
      reporters: reporters.filter((one) => ofReporter(one) === identity),
    };
    return mayBeAlive(signOf(own, now))
      ? [{ identity, seen: lastOf(own, now).at, reports: own.reporters.length > 0 }]
      : [];
  });
}

const ofPoller = ({ identity }: Poller): string => identity ?? '';
const ofReporter = ({ workerHeartbeat }: Reporter): string => workerHeartbeat?.workerIdentity ?? '';

/** The latest counts. `now`: milliseconds since 1970. */
export function signOf(workers: Workers, now: number): Sign | null {
  if (workers.pollers.length + workers.reporters.length === 0) return null;
  const { at, every, identity } = lastOf(workers, now);
  // The server's clock may be ahead of this one.
  const ago = Math.max(0, Math.round(now / 1000 - at));
  return { ago, every, worker: identity === '' ? null : namedIn(identity).worker };
}

/** Polls have the server's clock, reports their worker's: one that polls has reported not long before. */
function lastOf(
  { pollers, reporters }: Workers,
  now: number,
): { at: number; every: number; identity: string } {
  const polls = pollers.map((one) => ({
    at: secondsOf(one.lastAccessTime),
    identity: ofPoller(one),
  }));
  const polled = Math.max(0, ...polls.map(({ at }) => at));
  const reports = reporters
    .map((one) => ({
      at: secondsOf(one.workerHeartbeat?.heartbeatTime),
      identity: ofReporter(one),
    }))
    .filter(({ at }) => at <= now / 1000 + LATE_S && at >= polled - REPORTS_EVERY_S - LATE_S);
  const every = reports.length === 0 ? ASKS_EVERY_S : REPORTS_EVERY_S;
  const last = [...polls, ...reports].reduce((a, b) => (b.at > a.at ? b : a), {
    at: 0,
    identity: '',
  });
  return { ...last, every };
}

const secondsOf = (time: Poller['lastAccessTime']): number => Number(time?.seconds ?? 0);

/** Certain: only a live worker that does not report may be silent for longer. */
export const isAlive = (sign: Sign | null): boolean =>
  sign !== null && sign.ago <= REPORTS_EVERY_S + LATE_S;

/** Not overdue: none is missing yet. */
export const mayBeAlive = (sign: Sign | null): sign is Sign =>
  sign !== null && sign.ago <= sign.every + LATE_S;

const RUN = '/run=';
const SERVES = '/generation=';
const STORES = '/store=';
const RESULTS = '/results=';
/** Temporal keeps it in each history, twice a workflow task. */
const MOST_OF_NAMES = 120;

/**
 * A worker's name on the server: the SDK's own, the run of its process, which store and which generation services it has.
 */
export function workerIdentity(
  {
    pid,
    host,
    run = null,
    store,
    results,
  }: { pid: number; host: string; run?: string | null } & StoreIds,
  services: readonly string[] | null,
): string {
  const names = services?.map(encodeURIComponent).join(',') ?? null;
  const parts = [
    `${pid}@${host}`,
    ...(run === null ? [] : [`${RUN}${run}`]),
    ...(store === null ? [] : [`${STORES}${store}`]),
    ...(results === null ? [] : [`${RESULTS}${results}`]),
    ...(names === null || names.length > MOST_OF_NAMES ? [] : [`${SERVES}${names}`]),
  ];
  return parts.join('');
}

/** The worker's name for people, and the ids of its stores. */
export function namedIn(identity: string): StoreIds & { worker: string } {
  const idAfter = (name: string): string | null =>
    new RegExp(`${name}([0-9a-f]+)(?=/|$)`).exec(identity)?.[1] ?? null;
  return {
    worker: identity.split('/')[0] ?? identity,
    store: idAfter(STORES),
    results: idAfter(RESULTS),
  };
}

/** The run of its process; null: a worker of an older release, or of another program. */
export const runIn = (identity: string): string | null =>
  /^[^/]*\/run=([0-9a-f]+-[0-9a-f]+)(?=\/|$)/.exec(identity)?.[1] ?? null;

/** What the identities of one process have in common. */
export function processOf(identity: string): string {
  const run = runIn(identity);
  const { worker } = namedIn(identity);
  return run === null ? worker : `${worker}${RUN}${run}`;
}

/** The generation services of a queue's workers; null: none runs, or one does not say what it has. */
export async function servicesOf(
  server: Describing,
  queue: { namespace: string; name: string },
): Promise<string[] | null> {
  const { pollers } = await described(server, { ...queue, type: 'workflow' });
  const served = pollers.map(({ identity }) => identity?.split(SERVES)[1]);
  if (served.length === 0 || served.includes(undefined)) return null;
  const names = served.flatMap((one) => (one ?? '').split(',')).filter((one) => one !== '');
  return [...new Set(names.map(decodeURIComponent))].toSorted();
}
