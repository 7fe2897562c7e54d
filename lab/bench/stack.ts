import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import type { Child } from '../../src/platform/process/child.js';
import { LOOPBACK_CHANNEL } from '../../src/client/server.js';
import { chooseServerPorts, startDevServer } from '../../src/dev/dev-server.js';
import type { z } from 'zod';
import { Config } from '../../src/workers/config.js';
import type { SimulatorProcess } from '../bed/simulator.js';
import { startSimulatorProcess } from '../bed/simulator.js';
import { puzzleSamples } from './samples.js';
import type { Pace, Scenario } from './scenario.js';
import { SIMULATOR, WARM_UP } from './scenario.js';

/** What the contenders of one scenario share. */
export interface Stack {
  folder: string;
  address: string;
  client: Client;
  server: Child;
  simulator: SimulatorProcess;
  generationUrl: string;
  samplesFile: string;
  stop(): Promise<void>;
}

/** A Temporal server and a simulator, on free ports of 127.0.0.1, and a folder for files. */
export async function startStack(
  { rollouts }: Pick<Scenario, 'rollouts'>,
  {
    cliPath,
    folder,
    dbFile = null,
    settings = SIMULATOR,
    metrics_port,
  }: {
    cliPath: string;
    folder: string;
    /** null: the server keeps everything in memory. */
    dbFile?: string | null;
    settings?: Parameters<typeof startSimulatorProcess>[0]['settings'];
    /** Of the server's own metrics. */
    metrics_port?: number;
  },
): Promise<Stack> {
  await mkdir(folder, { recursive: true });
  const samplesFile = path.join(folder, 'samples.jsonl');
  const lines = puzzleSamples(Math.max(rollouts, WARM_UP.rollouts)).map(
    (sample) => `${JSON.stringify(sample)}\n`,
  );
  await writeFile(samplesFile, lines.join(''));
  const started: Pick<Child, 'stop'>[] = [];
  try {
    const server = await startDevServer({
      cliPath,
      ports: await chooseServerPorts({ server: 0, ui: 0 }),
      dbFile,
      headless: true,
      logFile: path.join(folder, 'server.log'),
      ...(metrics_port !== undefined && { metrics_port }),
    });
    started.push(server);
    const simulator = await startSimulatorProcess({
      directory: folder,
      port: 0,
      settings,
      logs: false,
    });
    started.push(simulator);
    const { address } = server;
    const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
    return {
      folder,
      address,
      client: new Client({ connection }),
      server,
      simulator,
      generationUrl: `${simulator.url}/v1`,
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

export const setPace = (
  { simulator }: Stack,
  { thinking_tokens, tokens_per_second }: Pace,
): Promise<void> => simulator.change({ thinking_tokens, tokens_per_second });

type Set = Parameters<typeof workerSettings>[1];

/** temporal.yaml of a worker of this stack, with defaults except for turn slice and memory. */
export const workerConfig = (stack: Stack, set: Set): Config =>
  Config.parse(workerSettings(stack, set));

/** The same without defaults, which another release may not know. */
export function workerSettings(
  { address, generationUrl, folder }: Stack,
  {
    task_queue,
    turn_slice,
    memory,
  }: {
    task_queue: string;
    /** null: the default. */
    turn_slice: string | null;
    memory?: string;
  },
): z.input<typeof Config> {
  return {
    temporal: { address, namespace: 'default', task_queue },
    store: { root: path.join(folder, 'trajectories') },
    inputs_dir: folder,
    generation: { default: { kind: 'vllm', base_urls: [generationUrl] } },
    environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
    worker: { ...(turn_slice !== null && { turn_slice }), memory },
  };
}
