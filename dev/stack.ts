import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { startChild } from './child.js';
import { loadModules } from '../src/workers/check/check-environments.js';
import type { Config } from '../src/workers/config.js';
import { loadConfig } from '../src/workers/config.js';
import type { Ports } from './dev-server.js';
import { chooseServerPorts, startDevServer } from './dev-server.js';
import { stackEnvironment } from './stack-environment.js';
import type { FolderClaim } from './folder-claim.js';
import { takePort } from './free-port.js';
import type { LocalConfigOptions } from './local-config.js';
import { writeLocalConfig } from './local-config.js';
import { servedIn } from './served.js';
import type { Part, Supervisor } from './supervisor.js';
import { addressOf, tokenIn } from '../viewer/serve/token.js';
import { isDeepStrictEqual } from 'node:util';
import { checkEngines } from '../src/workers/check/check-deployment.js';

/** The folders of a local stack. */
export interface StackPlace {
  /** The built project. */
  projectRoot: string;
  /** Database, logs and the stack's own temporal.yaml. */
  folder: string;
  cliPath: string;
  claim: FolderClaim;
  supervisor: Supervisor;
}

export interface StackOptions extends StackPlace {
  /** The deployment's temporal.yaml. */
  config: string;
  /** Whether that is the project's own. */
  own: boolean;
  /** A file of the simulator's settings, which then plays; null: those of the demonstration. */
  simulator: string | null;
  /** Base URL of an engine that plays, with `/v1`; null: what the temporal.yaml names, else the simulator. */
  engine: string | null;
  /** For a program: its temporal.yaml may be missing, and it needs no ports that people know. */
  for_program: boolean;
}

/**
 * The Temporal server of a stack that is not started yet: its address is known, so its worker's settings can be
 * written.
 */
export interface PlannedServer {
  ports: Ports;
  address: string;
  namespace: string;
  uiUrl: string;
  logs: string;
}

export interface Stack extends PlannedServer {
  taskQueue: string;
  /** Base URLs of the engines that play; null: the simulator. */
  engine: string | null;
  /** What keeps them from it. */
  engineFaults: string[];
  /** Base URL of the simulator; null: it does not play. */
  simulatorUrl: string | null;
  /** The address of the page of its rollouts, with its token. */
  viewerUrl: string;
  /** Its own temporal.yaml. */
  settings: string;
  /** Names of the environments in the deployment's temporal.yaml. */
  environments: string[];
  /** Makes its worker serve these environments of other processes, too. */
  serve: (served: Record<string, string>) => Promise<void>;
}

/**
 * Tokens a second per stream, and tokens of thought per turn. The example takes about a quarter of a minute, so that it
 * can be watched.
 */
export const DEMO_SIMULATOR = [
  '--tokens-per-second',
  '120',
  '--thinking-tokens',
  '[40,120]',
  '--skill',
  '0.5',
  // So that policy updates can be tried on it.
  '--dev-mode',
  'true',
  // And samples with pictures.
  '--scale-out',
  'true',
];

/** The logs that a stack writes. It removes nothing else in the folder. */
const LOGS = ['temporal-server', 'simulator', 'worker', 'viewer'] as const;

const logIn = (logs: string, part: string): string => path.join(logs, `${part}.log`);

/** Takes ports, and prepares a folder for logs without those of an earlier start. */
export async function planServer(folder: string, from?: Ports): Promise<PlannedServer> {
  const logs = path.join(folder, 'logs');
  for (const part of LOGS) await rm(logIn(logs, part), { force: true });
  const ports = await chooseServerPorts(from);
  return {
    ports,
    address: `127.0.0.1:${ports.server}`,
    namespace: 'default',
    uiUrl: `http://127.0.0.1:${ports.ui}`,
    logs,
  };
}

/** Temporal server, worker, and the simulator if no engine is named, each restarted on the same ports when it dies. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { folder, supervisor, for_program } = options;
  const from = for_program
    ? portsOf(folder)
    : { server: 7233, ui: 8233, simulator: 8000, viewer: 8234 };
  const server = await planServer(folder, from);
  const given = await loadConfig(options.config, {
    missing: for_program,
    directory: path.dirname(folder),
  });
  const engine = engineOf(options, given);
  const simulatorPort = engine === null ? await takePort(from.simulator) : null;
  const simulatorUrl = simulatorPort === null ? null : `http://127.0.0.1:${simulatorPort}/v1`;
  const viewerPort = await takePort(from.viewer);
  const viewerUrl = `http://127.0.0.1:${viewerPort}`;
  const target = path.join(folder, 'temporal.yaml');
  const generationUrl = options.engine ?? simulatorUrl;
  const write = localConfig(options, { ...server, generationUrl, viewerUrl, target });
  const served = await servedIn(folder);
  const config = await write(served, given);
  const { temporal, environments } = config;
  const faults = engine === null ? [] : engineFaults(config, process.env);
  // A module that cannot be loaded needs a person, and no restart.
  await loadModules({ environments }, stackEnvironment(process.env));
  await supervisor.run(serverPart({ ...options, ...server }));
  const viewer = addressOf(viewerUrl, await tokenIn(folder));
  await startSimulatorAndWorker(options, { ...server, simulatorPort, target });
  const part = nodePart({ ...options, ...server });
  await supervisor.run(
    part('serve', { name: 'viewer', args: ['--config', target, '--port', String(viewerPort)] }),
  );
  return {
    ...server,
    taskQueue: temporal.task_queue,
    engine,
    engineFaults: await faults,
    simulatorUrl,
    viewerUrl: viewer,
    settings: target,
    environments: Object.keys(environments).filter(
      (name) => !isServed(environments[name], served[name]),
    ),
    serve: async (now) => {
      await write(now);
      await supervisor.renew('worker');
    },
  };
}

/** Base URLs of the engines that play; null: the simulator. */
function engineOf({ own, engine, simulator }: StackOptions, given: Config): string | null {
  if (engine !== null || simulator !== null) return engine;
  const named = namedEngines(given, { own });
  return named === null ? null : named.join(', ') || 'those that join';
}

async function startSimulatorAndWorker(
  options: StackOptions,
  { simulatorPort, target, logs }: PlannedServer & { simulatorPort: number | null; target: string },
): Promise<void> {
  const { supervisor, simulator } = options;
  const part = nodePart({ ...options, logs });
  if (simulatorPort !== null) {
    const behaves = simulator === null ? DEMO_SIMULATOR : ['--settings', path.resolve(simulator)];
    const args = ['--port', String(simulatorPort), ...behaves];
    await supervisor.run(part('simulator', { args }));
  }
  await supervisor.run(part('worker', { args: ['--config', target] }));
}

/** Writes the settings of the stack's worker, for these environments of other processes. `given`: the deployment's. */
const localConfig =
  (
    { config, folder, for_program }: StackOptions,
    local: Pick<
      LocalConfigOptions,
      'target' | 'address' | 'namespace' | 'generationUrl' | 'viewerUrl'
    >,
  ) =>
  (served: Record<string, string>, given?: Config): Promise<Config> =>
    writeLocalConfig({
      ...local,
      source: config,
      directory: path.dirname(folder),
      served,
      missing: for_program,
      ...(given !== undefined && { settings: given }),
    });

const isServed = (settings: Config['environments'][string] | undefined, url?: string): boolean =>
  settings?.kind === 'http' && settings.url === url;

/** Where the ports of a folder's stack are looked for first: programs in several folders may start theirs at once. */
function portsOf(folder: string): Ports & { simulator: number; viewer: number } {
  const digest = createHash('sha256').update(path.resolve(folder)).digest();
  const first = 10_000 + 4 * (digest.readUInt16BE() % 4500);
  return { server: first, ui: first + 1, simulator: first + 2, viewer: first + 3 };
}

/** Only a stack's server and a worker with these settings. */
export async function startServerAndWorker(
  place: StackPlace,
  { server, config }: { server: PlannedServer; config: string },
): Promise<void> {
  await place.supervisor.run(serverPart({ ...place, ...server }));
  await place.supervisor.run(
    nodePart({ ...place, ...server })('worker', { args: ['--config', config] }),
  );
}

export function serverPart({
  cliPath,
  folder,
  claim,
  ports,
  logs,
}: StackPlace & PlannedServer): Part {
  const logFile = logIn(logs, 'temporal-server');
  return {
    name: 'Temporal server',
    logFile,
    ready: 'started',
    start: async (signal) => {
      const dbFile = path.join(folder, 'temporal.db');
      const server = await startDevServer({
        cliPath,
        ports,
        dbFile,
        headless: false,
        logFile,
        signal,
      });
      await claim.noteServer(server.pid);
      return server;
    },
  };
}

/** What they say when they serve, and when they poll. */
const READY = {
  simulator: /^simulator of a vLLM server on /m,
  worker: /"worker started"/,
  serve: /^rollouts of /m,
};

/** A command of `temporal-rollout` as its own process. `tmp`: its folder for temporary files. */
export function nodePart({
  projectRoot,
  logs,
}: Pick<StackPlace & PlannedServer, 'projectRoot' | 'logs'>) {
  return (
    command: 'simulator' | 'worker' | 'serve',
    { args, name = command, tmp }: { args: readonly string[]; name?: string; tmp?: string },
  ): Part => {
    const logFile = logIn(logs, name);
    return {
      name,
      logFile,
      ready: READY[command],
      start: () =>
        startChild({
          command: process.execPath,
          args: [path.join(projectRoot, 'dist', 'src', 'cli', 'main.js'), command, ...args],
          cwd: projectRoot,
          env: { ...stackEnvironment(process.env), ...(tmp !== undefined && { TMPDIR: tmp }) },
          logFile,
          ends: 'pipe',
        }),
    };
  };
}

/** The engine of the project's own temporal.yaml: where `temporal-rollout simulator` serves unless told otherwise. */
const OF_SIMULATOR = { kind: 'vllm', base_urls: ['http://127.0.0.1:8000/v1'] };

/**
 * The base URLs of the engines that a temporal.yaml names, beside those that may join; null: it has none, so that the
 * simulator plays. `own`: whether it is the project's.
 */
export function namedEngines(
  { generation }: Pick<Config, 'generation'>,
  { own }: { own: boolean },
): string[] | null {
  const { kind, base_urls } = generation['default'] ?? {};
  if (own && isDeepStrictEqual({ kind, base_urls }, OF_SIMULATOR)) return null;
  const services = Object.values(generation);
  const joins = services.some(({ allow }) => allow.length > 0);
  const urls = services.flatMap(({ base_urls }) => base_urls);
  return urls.length === 0 && !joins ? null : urls;
}

/** So long a start waits for the answers of engines. */
const ANSWER_WITHIN_MS = 4000;

/** What keeps the engines of these settings from playing, a line each, and what to do. */
export async function engineFaults(config: Config, env: NodeJS.ProcessEnv): Promise<string[]> {
  const found = await checkEngines(config, { env, within_ms: ANSWER_WITHIN_MS });
  const broken = found.filter(({ state }) => state === 'broken');
  return broken.map(({ part, what, remedy = '' }) => `${part}: ${what}; ${remedy}`);
}
