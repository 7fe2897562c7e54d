import { rm } from 'node:fs/promises';
import path from 'node:path';
import { startChild } from './child.js';
import { chooseServerPorts, startDevServer } from './dev-server.js';
import { stackEnvironment } from './environment.js';
import type { FolderClaim } from './folder-claim.js';
import { firstFreePort } from './free-port.js';
import { writeLocalConfig } from './local-config.js';
import type { Part, Supervisor } from './supervisor.js';

export interface StackOptions {
  /** The project, built. */
  projectRoot: string;
  /** The deployment's temporal.yaml. */
  config: string;
  /** Database, logs and the stack's own temporal.yaml. */
  folder: string;
  cliPath: string;
  claim: FolderClaim;
  supervisor: Supervisor;
}

export interface Stack {
  taskQueue: string;
  address: string;
  namespace: string;
  uiUrl: string;
  generationUrl: string;
  logs: string;
}

/** Tokens a second per stream, tokens of thought per turn: the example takes about a quarter of a minute, so that it can be watched. */
const DEMO_SIMULATOR = [
  '--tokens-per-second',
  '100',
  '--thinking-tokens',
  '[40,120]',
  '--skill',
  '0.5',
];

/** Temporal server, simulator and worker, each started again when it dies, on the same ports. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { projectRoot, config, folder, supervisor } = options;
  const logs = path.join(folder, 'logs');
  await rm(logs, { recursive: true, force: true });
  const ports = await chooseServerPorts();
  const simulatorPort = await firstFreePort(8000, Object.values(ports));
  const address = `127.0.0.1:${ports.server}`;
  const namespace = 'default';
  const generationUrl = `http://127.0.0.1:${simulatorPort}/v1`;
  const target = path.join(folder, 'temporal.yaml');
  const settings = await writeLocalConfig({
    source: config,
    target,
    address,
    namespace,
    generationUrl,
  });
  const part = nodePart({ projectRoot, logs });
  await supervisor.run(serverPart({ ...options, ports, logs }));
  await supervisor.run(part('simulator', ['--port', String(simulatorPort), ...DEMO_SIMULATOR]));
  await supervisor.run(part('worker', ['--config', target]));
  const uiUrl = `http://127.0.0.1:${ports.ui}`;
  return {
    taskQueue: settings.temporal.task_queue,
    address,
    namespace,
    generationUrl,
    logs,
    uiUrl,
  };
}

function serverPart({
  cliPath,
  folder,
  claim,
  ports,
  logs,
}: StackOptions & { ports: { server: number; ui: number }; logs: string }): Part {
  const logFile = path.join(logs, 'temporal-server.log');
  return {
    name: 'Temporal server',
    logFile,
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

/** A command of `temporal-rollout`, as a process of its own. */
function nodePart({ projectRoot, logs }: { projectRoot: string; logs: string }) {
  return (command: string, args: readonly string[]): Part => {
    const logFile = path.join(logs, `${command}.log`);
    return {
      name: command,
      logFile,
      start: () =>
        startChild({
          command: process.execPath,
          args: [path.join(projectRoot, 'dist', 'cli', 'main.js'), command, ...args],
          cwd: projectRoot,
          env: stackEnvironment(process.env),
          logFile,
          ends: 'pipe',
        }),
    };
  };
}
