import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import { replaceFile } from '../../../src/platform/files.js';
import { startChild } from '../../../dev/child.js';
import { takePort } from '../../../dev/free-port.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { loadConfig } from '../../../src/workers/config.js';
import { migrateStore } from '../../../src/workers/open-store.js';
import type { LocalPostgres } from './postgres.js';
import { NO_POSTGRES, findPostgres, preparePostgres } from './postgres.js';
import { stackEnvironment } from '../../../dev/stack-environment.js';
import type { PlannedServer, StackPlace } from '../../../dev/stack.js';
import { DEMO_SIMULATOR, nodePart, planServer, serverPart } from '../../../dev/stack.js';
import type { Part } from '../../../dev/supervisor.js';

/** Each of them twice, as on two hosts. */
const ROLES = ['workflow', 'generation', 'environment'] as const;
const HOSTS = [1, 2];

export const TASK_QUEUE = 'rollouts';

export interface Cluster extends PlannedServer {
  /** Where all workers with role `workflow` write results, and trainers read them: the only shared folder. */
  outputs: string;
  /** The settings of one worker, for `temporal-rollout show`. */
  config: string;
  database: string;
}

/**
 * PostgreSQL, Temporal server, two simulators and two workers of each role, each restarted when it dies. A worker has
 * its own folder for settings and temporary files.
 */
export async function startCluster(place: StackPlace & { scratch: string }): Promise<Cluster> {
  const { folder, supervisor, scratch } = place;
  const server = await planServer(folder);
  const { address, namespace, logs } = server;
  const binaries = findPostgres(process.env);
  if (binaries === null) throw new Error(NO_POSTGRES);
  const password = randomBytes(18).toString('hex');
  const port = await takePort(5432);
  const database = await preparePostgres({ binaries, folder: scratch, port, password });
  await supervisor.run(postgresPart(database, { logs, folder: scratch }));
  await supervisor.run(serverPart({ ...place, ...server }));

  const part = nodePart({ ...place, logs });
  const engines: string[] = [];
  for (const host of HOSTS) {
    const port = await takePort(8000);
    engines.push(`http://127.0.0.1:${port}/v1`);
    const args = ['--port', String(port), ...DEMO_SIMULATOR];
    await supervisor.run(part('simulator', { args, name: `simulator-${host}` }));
  }
  const outputs = path.join(folder, 'outputs');
  const configs: string[] = [];
  for (const role of ROLES)
    for (const host of HOSTS) {
      const name = `${role}-${host}`;
      const own = path.join(folder, 'hosts', name);
      const tmp = path.join(own, 'tmp');
      await mkdir(tmp, { recursive: true });
      const settings = settingsOf({ address, namespace, outputs, engines, role });
      const config = path.join(own, 'temporal.yaml');
      await replaceFile(path.join(own, 'database-url'), { content: database.url });
      await replaceFile(config, { content: stringify(settings) });
      if (configs.push(config) === 1) await migrateStore(await loadConfig(config), process.env);
      await supervisor.run(part('worker', { args: ['--config', config], name, tmp }));
    }
  return {
    ...server,
    outputs,
    config: configs[0] ?? '',
    database: `127.0.0.1:${port}`,
  };
}

/** For a database that other users must be able to reach, and that is useless after the cluster has ended. */
export async function makeScratch(): Promise<{ path: string; remove: () => Promise<void> }> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'rollouts-cluster-'));
  return {
    path: scratch,
    remove: () => rm(scratch, { recursive: true, force: true, maxRetries: 3 }),
  };
}

function postgresPart(
  { command, args, user }: LocalPostgres,
  { logs, folder }: { logs: string; folder: string },
): Part {
  const logFile = path.join(logs, 'postgres.log');
  const env = stackEnvironment(process.env);
  return {
    name: 'PostgreSQL',
    logFile,
    ready: /ready to accept connections/,
    start: () => startChild({ command, args, cwd: folder, env, logFile, ends: 'kernel', user }),
  };
}

function settingsOf({
  address,
  namespace,
  outputs,
  engines,
  role,
}: {
  address: string;
  namespace: string;
  outputs: string;
  engines: readonly string[];
  role: (typeof ROLES)[number];
}) {
  return {
    temporal: { profile: null, address, namespace, task_queue: TASK_QUEUE },
    store: { kind: 'postgres', url_file: 'database-url', outputs: { root: outputs } },
    generation: { default: { kind: 'vllm', base_urls: engines } },
    environments: {
      // Its steps run in another process than the generation: they are work for role environment.
      words: { kind: 'module', path: WORDS, in_process: false },
      sliding_puzzle: { kind: 'sliding_puzzle' },
    },
    worker: { roles: [role] },
  };
}

const WORDS = path.join(PROJECT_ROOT, 'examples', 'custom-environment', 'environment.ts');
