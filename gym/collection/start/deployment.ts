import { createHash } from 'node:crypto';
import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';
import type { ServerAddress } from '../../../src/client/server.js';
import { onLoopback } from '../../../src/client/server.js';
import { claimFolder } from '../../../dev/folder-claim.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import type { PlannedServer } from '../../../dev/stack.js';
import { planServer, startServerAndWorker } from '../../../dev/stack.js';
import { createSupervisor } from '../../../dev/supervisor.js';
import { findTemporalCli } from '../../../tools/temporal-cli/find.js';
import type { OpenStore, TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import type { Config } from '../../../src/workers/config.js';
import { placeOf } from '../../../src/platform/s3/bucket.js';
import { loadConfig } from '../../../src/workers/config.js';
import { connectionSettings } from '../../../src/workers/connection-settings.js';
import { openStore } from '../../../src/workers/open-store.js';
import { writeNewLines } from '../../new-file.js';

/** What plays a collection: a Temporal server, workers, their store, and their environment of kind `gym_agent`. */
export interface Deployment {
  server: ServerAddress;
  task_queue: string;
  store: TrajectoryStore;
  /** Identifies the store: a folder, or a database's address. */
  store_root: string;
  inputs_dir: string;
  /** Name of the environment. */
  environment: string;
  agents: Pick<AgentSettings, 'head_server' | 'agents'> &
    Partial<Pick<AgentSettings, 'model_server'>>;
  /** null: unknown. */
  ui_url: string | null;
  /** Folder of a stack that serves only this command; null: a shared deployment. */
  folder: string | null;
  /** Ends what was started for it. */
  close: () => Promise<void>;
}

type AgentSettings = Extract<Config['environments'][string], { kind: 'gym_agent' }>;

/** Name of a local stack's environment. */
const ENVIRONMENT = 'nemo_gym';

/** A deployment whose workers run somewhere. Throws the problems of its settings. */
export async function openDeployment({
  file,
  environment,
  say,
}: {
  /** Its temporal.yaml. */
  file: string;
  /** null: its only one of kind `gym_agent`. */
  environment: string | null;
  say: (line: string) => void;
}): Promise<Deployment> {
  const config = await loadConfig(file);
  const found = gymAgentOf(config, { file, environment });
  const opened = storeOf(config);
  await opened.ready({ say }).catch(async (error: unknown) => {
    await opened.close();
    throw error;
  });
  return {
    ...partsOf(config, { ...found, opened }),
    server: connectionSettings(config),
    ui_url: null,
    folder: null,
    close: opened.close,
  };
}

function gymAgentOf(
  { environments }: Config,
  { file, environment }: { file: string; environment: string | null },
): { name: string; settings: AgentSettings } {
  const found = Object.entries(environments).flatMap(([name, settings]) =>
    settings.kind === 'gym_agent' ? [{ name, settings }] : [],
  );
  const names = found.map(({ name }) => name).join(', ');
  if (environment !== null) {
    const named = found.find(({ name }) => name === environment);
    if (named !== undefined) return named;
    throw new Error(
      `${file} has no environment ${JSON.stringify(environment)} of kind gym_agent; it has ${names === '' ? 'none of that kind' : names}`,
    );
  }
  const [only, ...others] = found;
  if (only === undefined) {
    throw new Error(
      `${file} has no environment of kind gym_agent: add one, such as\n  ${ENVIRONMENT}: { kind: gym_agent, head_server: http://127.0.0.1:11000, model_server: own }`,
    );
  }
  if (others.length === 0) return only;
  throw new Error(
    `${file} has several environments of kind gym_agent (${names}): choose one with --gym-environment NAME`,
  );
}

/** Read once, journal by journal, so nothing is cached. */
const storeOf = (config: Config): OpenStore =>
  openStore(config, { env: process.env, max_cached_bytes: 0, max_request_bytes: 0 });

function partsOf(
  { temporal, inputs_dir }: Config,
  { name, settings, opened }: { name: string; settings: AgentSettings; opened: OpenStore },
) {
  if (placeOf(inputs_dir) !== null)
    throw new Error(
      `inputs_dir: expected a folder, got ${inputs_dir}: collections write their samples to a disk`,
    );
  return {
    task_queue: temporal.task_queue,
    store: opened.store,
    store_root: opened.store.name,
    inputs_dir,
    environment: name,
    agents: settings,
  };
}

export interface LocalOptions {
  /** It contains its database, trajectories and logs. */
  folder: string;
  /** URL of Gym's head server. */
  head_server: string;
  task_queue: string;
  say: (line: string) => void;
  /** Called once, when a part dies again and again. */
  giveUp: (reason: Error) => void;
}

/** The store of a local stack in this folder. */
export const localStore = (folder: string): string => path.join(folder, 'trajectories');

const FIRST_PORT = 20_000;
const PAIRS = 5000;

/**
 * Ports of the folder, below the ephemeral range: collections that start at the same moment would otherwise both find
 * the first port free, and one would talk to the other's server. The Web UI also keeps its address.
 */
export function portsFor(folder: string): { server: number; ui: number } {
  const hash = createHash('sha256').update(folder).digest().readUInt32BE();
  const server = FIRST_PORT + 2 * (hash % PAIRS);
  return { server, ui: server + 1 };
}

/** A local stack's settings: a folder without this file never had one. */
const settingsIn = (folder: string): string => path.join(folder, 'collect.yaml');

/**
 * Whether this folder has had a local stack of this user. The state file alone is not trusted, because the folder will
 * be written to.
 */
export async function hasStack(folder: string): Promise<boolean> {
  const found = await stat(settingsIn(folder)).catch(() => null);
  return found !== null && found.uid === (process.getuid?.() ?? found.uid);
}

/** A Temporal server with its Web UI and a worker for this command. They end with it, in any case. */
export async function startLocalDeployment(options: LocalOptions): Promise<Deployment> {
  const { folder, say, giveUp } = options;
  const cli = await findTemporalCli({ env: process.env, projectRoot: PROJECT_ROOT, say });
  const claim = await claimFolder(folder, say);
  const supervisor = createSupervisor({ say, giveUp });
  const close = async (): Promise<void> => {
    await supervisor.stop();
    await claim.release();
  };
  try {
    const server = await planServer(folder, portsFor(folder));
    const target = settingsIn(folder);
    await writeSettings(target, { ...options, server });
    const config = await loadConfig(target);
    await mkdir(config.inputs_dir, { recursive: true });
    const found = gymAgentOf(config, { file: target, environment: ENVIRONMENT });
    const place = { projectRoot: PROJECT_ROOT, folder, cliPath: cli.path, claim, supervisor };
    await startServerAndWorker(place, { server, config: target });
    return {
      ...partsOf(config, { ...found, opened: storeOf(config) }),
      server: onLoopback(server),
      ui_url: server.uiUrl,
      folder,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Writes a local stack's temporal.yaml. */
async function writeSettings(
  target: string,
  { folder, head_server, task_queue, server }: LocalOptions & { server: PlannedServer },
): Promise<void> {
  const { address, namespace } = server;
  const settings = {
    temporal: { profile: null, address, namespace, task_queue },
    store: { kind: 'file', root: localStore(folder) },
    inputs_dir: path.join(folder, 'inputs'),
    generation: {},
    environments: { [ENVIRONMENT]: { kind: 'gym_agent', head_server, model_server: 'own' } },
    worker: { roles: ['workflow', 'generation'] },
  };
  await writeNewLines(target, [
    '# Written by each start of `temporal-rollout collect` without --config',
    stringify(settings),
  ]);
}
