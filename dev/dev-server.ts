import { chmod, mkdir, stat } from 'node:fs/promises';
import { totalmem } from 'node:os';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { LOOPBACK_CHANNEL } from '../src/client/server.js';
import { within } from '../src/platform/waits/abort.js';
import { describeError } from '../src/platform/errors.js';
import { SEARCH_ATTRIBUTES } from '../src/model/workflow-safe/search-attributes.js';
import type { Child } from './child.js';
import { describeExit, logTail, startChild } from './child.js';
import { stackEnvironment } from './stack-environment.js';
import { firstFreePort, takePort } from './free-port.js';

export interface DevServerOptions {
  /** The Temporal CLI. */
  cliPath: string;
  /** Fixed ports, for example those of a server that is restarted. */
  ports: Ports;
  /** null: in memory. Its folder is created. */
  dbFile: string | null;
  headless: boolean;
  /** Besides `default`. */
  namespaces?: readonly string[];
  /** Output of the server. */
  logFile: string;
  /** false: as servers come, in order of arrival. */
  shares?: boolean;
  /** Where it serves its own metrics; absent: any free port. */
  metrics_port?: number;
  /** Ends the wait for a server that does not start. */
  signal?: AbortSignal;
}

export interface Ports {
  server: number;
  ui: number;
}

export interface DevServer extends Child {
  /** `127.0.0.1:<port>` */
  address: string;
  namespace: string;
  /** null when headless. */
  uiUrl: string | null;
}

/** The CLI's names of the types. */
const CLI_TYPES = { KEYWORD: 'Keyword', INT: 'Int', DOUBLE: 'Double' } as const;

/** start-dev keeps a cluster's default limits: 1200 requests a second limit a batch long before SQLite does. */
const RAISED_LIMITS = ['matching.rps', 'history.rps', 'frontend.rps', 'frontend.namespaceRPS'];
/** Batches and streams share the slots of workers equally. A server of its own would serve in order of arrival. */
const FAIRNESS = 'matching.enableFairness';

/**
 * Go collects garbage when the heap has doubled. At five times its size a rollout costs the server 8 % less CPU, and the
 * server has 200 MB more; the limit keeps a long batch from taking much more. The shell's own settings count.
 */
const GOGC = '400';
const GIB = 2 ** 30;

/**
 * The server holds 90 kB for each rollout in flight. Near its limit it would do little but collect garbage, so ten
 * thousand need more than the least: a quarter of the machine's memory, or of its container's.
 */
export function serverMemory(machine_bytes: number): string {
  return `${Math.floor(Math.max(GIB, machine_bytes / 4) / 2 ** 20)}MiB`;
}

/** 0, or more than there is: the process has no limit of its own. */
const machineBytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Infinity);

const NAMESPACE = 'default';
const RETENTION = '7d';
const HEALTHY_WITHIN_MS = 30_000;
const MOST_STARTS = 3;

/** Ports for {@link startDevServer}, taken: the given ones or the next free; 0 is any free one. */
export async function chooseServerPorts(from: Ports = { server: 7233, ui: 8233 }): Promise<Ports> {
  return { server: await takePort(from.server), ui: await takePort(from.ui) };
}

/**
 * Starts `temporal server start-dev` on 127.0.0.1 and waits until it is healthy, with the namespace's retention set.
 * Rejects with the end of its log if it ends or is not healthy within 30 s; then no process is left.
 */
export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  const { ports, dbFile, headless } = options;
  for (const port of headless ? [ports.server] : [ports.server, ports.ui]) {
    // Otherwise the wait below would talk to another listener.
    if ((await firstFreePort(port)) !== port)
      throw new Error(`port ${port} of 127.0.0.1, meant for the Temporal server, is in use`);
  }
  if (dbFile !== null) await keepPrivate(dbFile);
  const address = `127.0.0.1:${ports.server}`;
  const child = await startUntilHealthy(options, { address, starts: MOST_STARTS });
  return {
    ...child,
    address,
    namespace: NAMESPACE,
    uiUrl: headless ? null : `http://127.0.0.1:${ports.ui}`,
  };
}

/** The database has all inputs and results. Its folder may be one that others can read. */
async function keepPrivate(dbFile: string): Promise<void> {
  await mkdir(path.dirname(dbFile), { recursive: true, mode: 0o700 });
  for (const part of ['', '-wal', '-shm']) {
    const file = `${dbFile}${part}`;
    const found = await stat(file).catch(() => null);
    if (found !== null && (found.mode & 0o077) !== 0) await chmod(file, found.mode & 0o700);
  }
}

/** The server picks ports for its own parts at random. If one is taken, it ends, and is started again. */
async function startUntilHealthy(
  options: DevServerOptions,
  { address, starts }: { address: string; starts: number },
): Promise<Child> {
  const { cliPath, logFile, signal } = options;
  const child = await startChild({
    command: cliPath,
    args: serverArguments(options),
    cwd: path.dirname(logFile),
    env: { GOGC, GOMEMLIMIT: serverMemory(machineBytes()), ...stackEnvironment(process.env) },
    logFile,
    ends: 'kernel',
    is_private: true,
  });
  const life = { ended: false };
  void child.exited.then(() => {
    life.ended = true;
  });
  try {
    await untilHealthy(child, { address, ...options });
    return child;
  } catch (error) {
    const endedByItself = life.ended && signal?.aborted !== true;
    await child.stop();
    if (endedByItself && starts > 1) {
      return await startUntilHealthy(options, { address, starts: starts - 1 });
    }
    throw new Error(await whyNotHealthy(error, options));
  }
}

function serverArguments({
  ports,
  dbFile,
  headless,
  namespaces = [],
  shares = true,
  metrics_port,
}: DevServerOptions): string[] {
  return [
    ...[
      'server',
      'start-dev',
      '--log-level',
      'error',
      '--ip',
      '127.0.0.1',
      '--port',
      String(ports.server),
    ],
    ...(metrics_port === undefined ? [] : ['--metrics-port', String(metrics_port)]),
    ...(headless ? ['--headless'] : ['--ui-ip', '127.0.0.1', '--ui-port', String(ports.ui)]),
    // The default journal mode with a sync per write is ten times slower.
    ...(dbFile === null
      ? []
      : [
          '--db-filename',
          dbFile,
          '--sqlite-pragma',
          'journal_mode=WAL',
          '--sqlite-pragma',
          'synchronous=NORMAL',
        ]),
    ...SEARCH_ATTRIBUTES.flatMap(({ name, type }) => [
      '--search-attribute',
      `${name}=${CLI_TYPES[type]}`,
    ]),
    ...namespaces.flatMap((name) => ['--namespace', name]),
    ...RAISED_LIMITS.flatMap((key) => ['--dynamic-config-value', `${key}=100000`]),
    // `temporal workflow pause`, which 1.31 has, but not without this.
    ...['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true'],
    ...(shares ? ['--dynamic-config-value', `${FAIRNESS}=true`] : []),
  ];
}

async function untilHealthy(
  child: Child,
  { address, signal }: { address: string; signal?: AbortSignal },
): Promise<void> {
  const connection = Connection.lazy({ address, channelArgs: LOOPBACK_CHANNEL });
  const ended = child.exited.then((exit) => {
    throw new Error(`it ended ${describeExit(exit)}`);
  });
  ended.catch(() => undefined);
  const deadline = performance.now() + HEALTHY_WITHIN_MS;
  let attempt: Promise<string | null> = Promise.resolve(null);
  try {
    for (;;) {
      signal?.throwIfAborted();
      attempt = tryPrepare(connection);
      const problem = await Promise.race([attempt, ended]);
      if (problem === null) return;
      if (performance.now() > deadline) {
        throw new Error(`it is not healthy after ${HEALTHY_WITHIN_MS / 1000} s: ${problem}`);
      }
      await within(100, ended);
    }
  } finally {
    // A call that is still retried throws unhandled when its connection is closed.
    await attempt;
    await connection.close();
  }
}

/** null if it is healthy and prepared; otherwise what is missing. */
async function tryPrepare(connection: Connection): Promise<string | null> {
  try {
    await connection.withDeadline(Date.now() + 1000, async () => {
      await connection.healthService.check({
        service: 'temporal.api.workflowservice.v1.WorkflowService',
      });
      // start-dev has no flag for this, and its default is one day.
      await connection.workflowService.updateNamespace({
        namespace: NAMESPACE,
        config: { workflowExecutionRetentionTtl: msToTs(RETENTION) },
      });
    });
    return null;
  } catch (error) {
    return describeError(error);
  }
}

async function whyNotHealthy(
  error: unknown,
  { cliPath, ports, dbFile, logFile }: DevServerOptions,
): Promise<string> {
  const tail = await logTail(logFile, 8);
  return [
    `The Temporal server (${cliPath} server start-dev, port ${ports.server}) did not start: ${describeError(error)}.`,
    ...(tail === '' ? [] : [tail]),
    `Its log: ${logFile}`,
    ...(dbFile === null
      ? []
      : [
          `If the database is from another version of the CLI, move ${dbFile}* away: batches continue from their journals when they are started again.`,
        ]),
  ].join('\n');
}
