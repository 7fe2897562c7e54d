import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { startChild } from '../src/platform/process/child.js';
import type { Child } from '../src/platform/process/child.js';
import { LOOPBACK_CHANNEL } from '../src/client/server.js';
import { chooseServerPorts, startDevServer } from '../src/dev/dev-server.js';
import { stackEnvironment } from '../src/dev/stack-environment.js';
import { firstFreePort } from '../src/platform/process/free-port.js';
import { PROJECT_ROOT } from '../src/platform/project-root.js';
import { Config } from '../src/workers/config.js';
import { puzzleSamples } from './samples.js';
import type { Scenario } from './scenario.js';
import { simulatorOptions } from './scenario.js';

/** What the contenders of one scenario share. */
export interface Stack {
  folder: string;
  address: string;
  client: Client;
  server: Child;
  simulator: Child;
  generationUrl: string;
  samplesFile: string;
  stop(): Promise<void>;
}

const READY_MS = 30_000;

/** A Temporal server and a simulator, on free ports of 127.0.0.1, and a folder for files. */
export async function startStack(
  scenario: Scenario,
  {
    cliPath,
    folder,
    dbFile = null,
  }: {
    cliPath: string;
    folder: string;
    /** null: the server keeps everything in memory. */
    dbFile?: string | null;
  },
): Promise<Stack> {
  await mkdir(folder, { recursive: true });
  const samplesFile = path.join(folder, 'samples.jsonl');
  const lines = puzzleSamples(scenario.rollouts).map((sample) => `${JSON.stringify(sample)}\n`);
  await writeFile(samplesFile, lines.join(''));
  const started: Child[] = [];
  try {
    const server = await startDevServer({
      cliPath,
      ports: await chooseServerPorts({ server: 0, ui: 0 }),
      dbFile,
      headless: true,
      logFile: path.join(folder, 'server.log'),
    });
    started.push(server);
    const port = await firstFreePort(0);
    const simulator = await startCommand(folder, [
      'simulator',
      '--port',
      String(port),
      ...simulatorOptions(scenario),
    ]);
    started.push(simulator);
    await untilHealthy(`http://127.0.0.1:${port}/health`);
    const { address } = server;
    const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
    return {
      folder,
      address,
      client: new Client({ connection }),
      server,
      simulator,
      generationUrl: `http://127.0.0.1:${port}/v1`,
      samplesFile,
      stop: async () => {
        await connection.close();
        await Promise.all([server.stop(), simulator.stop()]);
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await Promise.all(started.map((child) => child.stop()));
    throw error;
  }
}

/** A command of `temporal-rollout`, from the built project, as users run it. */
export function startCommand(folder: string, args: readonly string[]): Promise<Child> {
  return startChild({
    command: process.execPath,
    args: [path.join(PROJECT_ROOT, 'dist', 'src', 'cli', 'main.js'), ...args],
    cwd: PROJECT_ROOT,
    env: stackEnvironment(process.env),
    logFile: path.join(folder, `${args[0] ?? 'command'}.log`),
    ends: 'pipe',
  });
}

/** temporal.yaml of a worker of this stack, with defaults except for turn slice and memory. */
export function workerConfig(
  { address, generationUrl, folder }: Stack,
  { task_queue, turn_slice, memory }: { task_queue: string; turn_slice: string; memory?: string },
): Config {
  return Config.parse({
    temporal: { address, namespace: 'default', task_queue },
    store: { root: path.join(folder, 'trajectories') },
    inputs_dir: folder,
    generation: { default: { kind: 'vllm', base_urls: [generationUrl] } },
    environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
    worker: { turn_slice, memory },
  });
}

async function untilHealthy(url: string): Promise<void> {
  for (const end = Date.now() + READY_MS; ;) {
    try {
      if ((await fetch(url)).ok) return;
    } catch (error) {
      if (Date.now() > end) throw new Error(`${url} does not answer`, { cause: error });
    }
    await sleep(100);
  }
}
