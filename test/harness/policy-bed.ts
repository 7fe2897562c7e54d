import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import type { z } from 'zod';
import type { PolicyStatus, PublishResult } from '../../src/activities/contract/policy.js';
import { LOOPBACK_CHANNEL, onLoopback } from '../../src/client/server.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { promptLogprobs } from '../../src/dev/simulator/weights.js';
import { stackEnvironment } from '../../src/dev/stack-environment.js';
import type { Publish } from '../../src/model/policy/publish.js';
import { PolicyRecord } from '../../src/model/policy/record.js';
import type { Child } from '../../src/platform/process/child.js';
import { startChild } from '../../src/platform/process/child.js';
import type { RecoveryBatch } from './recovery-bed.js';
import { openBatch } from './recovery-bed.js';
import type { OwnServer, TestServer } from './dev-server.js';
import { MAIN } from './command.js';
import { PROJECT_ROOT, startOwnServer, startTestServer } from './dev-server.js';
import type { KeptWorker } from './kept-worker.js';
import { keepWorker } from './kept-worker.js';
import type { LabelReport } from './policy-labels.js';
import { checkLabels } from './policy-labels.js';
import type { SimulatorProcess, SimulatorProcessOptions } from './simulator-process.js';
import { startSimulatorProcess } from './simulator-process.js';
import type { StreamToTest } from './stream-bed.js';
import { openStreamToTest } from './stream-bed.js';
import { makeTemporaryDirectory } from './temporary-directory.js';
import type { WorkerConfig } from './worker-process.js';

type PublishInput = z.input<typeof Publish>;

/** A server, simulators that know their weights, and a worker; each may be killed and started again. */
export interface PolicyBed {
  server: () => TestServer;
  killServer: () => Promise<void>;
  startServer: () => Promise<void>;
  engines: Engine[];
  worker: KeptWorker;
  batch: (batch_id: string) => RecoveryBatch;
  stream: (id: string) => StreamToTest;
  /** Journals folder of a batch or a stream. */
  journals: (id: string) => string;
  /** Deletes the database of the Temporal server, which must not run. */
  loseDatabase: () => Promise<void>;
  /** Writes the weights of this version, and returns what a trainer publishes for them. */
  weights: (version: number) => Promise<PublishInput>;
  publish: (input: PublishInput) => Promise<PublishResult>;
  /** A trainer as a process: `temporal-rollout policy publish`. */
  startTrainer: (input: PublishInput) => Promise<Child>;
  /** Asks every engine whether it is paused; `stop` returns the longest pause of one engine, in seconds. */
  watchPauses: () => { stop: () => Promise<number> };
  status: () => Promise<PolicyStatus>;
  /** As the store has it. */
  record: () => Promise<PolicyRecord | null>;
  check: (batch_id: string) => Promise<LabelReport>;
  end: () => Promise<void>;
}

export interface Engine {
  /** As records name it. */
  replica: string;
  directory: string;
  process: () => SimulatorProcess;
  /** SIGKILL. */
  kill: () => Promise<void>;
  /** On the same port, with its initial weights. */
  start: () => Promise<void>;
}

export interface PolicyBedOptions {
  name: string;
  /** A Temporal server that no other test file uses, so it may be killed. */
  own_server?: boolean;
  /** false: its own server serves in order of arrival. */
  shares?: boolean;
  replicas?: number;
  simulator?: SimulatorProcessOptions['settings'];
  generation?: Partial<NonNullable<WorkerConfig['generation']>[string]>;
  worker?: WorkerConfig['worker'];
  environments?: WorkerConfig['environments'];
  /** Skill of all weights; without it they differ in skill. */
  skill?: number;
}

export const TASK_QUEUE = 'policy-bed';
const PROBE_IDS = [10, 200, 33, 7, 91, 4, 150, 60];

export async function startPolicyBed({
  name,
  own_server = false,
  shares = true,
  replicas = 2,
  simulator = {},
  generation = {},
  worker: more = {},
  environments = { sliding_puzzle: { kind: 'sliding_puzzle' } },
  skill,
}: PolicyBedOptions): Promise<PolicyBed> {
  const { path: directory, remove } = await makeTemporaryDirectory(name);
  const db_file = path.join(directory, 'database', 'temporal.db');
  let server: TestServer | OwnServer = own_server
    ? await startOwnServer({ directory, db_file, shares })
    : await startTestServer({ directory });
  const own = (): OwnServer => {
    if ('pid' in server) return server;
    throw new Error('other files use this Temporal server: ask for own_server');
  };
  const settings = {
    dev_mode: true,
    scale_out: true,
    tokens_per_second: 200,
    thinking_tokens: 60,
    ...simulator,
  };
  const engines: Engine[] = [];
  for (let i = 0; i < replicas; i++)
    engines.push(await startEngine(path.join(directory, `engine-${i}`), settings));
  const store_root = path.join(directory, 'store');
  const worker = await keepWorker({
    directory,
    name: 'worker',
    config: {
      temporal: { address: server.address, namespace: server.namespace, task_queue: TASK_QUEUE },
      store: { kind: 'file', root: store_root },
      inputs_dir: PROJECT_ROOT,
      generation: {
        default: { kind: 'vllm', base_urls: engines.map(({ replica }) => replica), ...generation },
      },
      environments,
      worker: { heartbeat_timeout: '2s', turn_slice: '500ms', ...more },
    },
    pipe_log: false,
  });
  const current = (): TestServer => server;
  // It survives the server's restarts on the same port; waiting calls continue.
  const connection = await Connection.connect({ address: server.address, channelArgs: LOOPBACK_CHANNEL }); // prettier-ignore
  const trainer = new Client({ connection, namespace: server.namespace });
  return {
    server: current,
    engines,
    worker,
    killServer: async () => {
      process.kill(own().pid, 'SIGKILL');
      await server.stop();
    },
    startServer: async () => {
      server = await startOwnServer({ directory, db_file, shares, ports: own().ports });
    },
    batch: (batch_id) =>
      openBatch({ server: current, store_root, task_queue: TASK_QUEUE, batch_id }),
    weights: (version) => weightsOf(version, { directory, skill }),
    publish: (input) => publish(current(), { task_queue: TASK_QUEUE, ...input }),
    stream: (id) =>
      openStreamToTest({ client: () => trainer, store_root, id, task_queue: TASK_QUEUE }),
    journals: (id) => path.join(store_root, id, 'journals'),
    loseDatabase: () => rm(path.dirname(db_file), { recursive: true, force: true }),
    startTrainer: (input) => startTrainer(input, directory),
    watchPauses: () => watchPauses(engines),
    status: () => policyStatus(current()),
    record: () => lastRecord(path.join(store_root, '_policy', 'default')),
    check: (batch_id) =>
      checkLabels({ journals: path.join(store_root, batch_id, 'journals'), engines }),
    end: async () => {
      await connection.close();
      await worker.stop();
      await Promise.all(engines.map((engine) => engine.process().stop()));
      await server.stop();
      await remove();
    },
  };
}

async function startEngine(
  directory: string,
  settings: SimulatorProcessOptions['settings'],
): Promise<Engine> {
  await mkdir(directory);
  let simulator = await startSimulatorProcess({ directory, port: 0, settings });
  const { port, url } = simulator;
  return {
    replica: `${url}/v1`,
    directory,
    process: () => simulator,
    kill: async () => {
      await simulator.kill();
    },
    start: async () => {
      simulator = await startSimulatorProcess({ directory, port, settings });
    },
  };
}

/** The probe contains the logprobs that the file's weights give a prompt. */
async function weightsOf(
  version: number,
  { directory, skill = 1 + (version % 3) }: { directory: string; skill: number | undefined },
): Promise<PublishInput> {
  const file = path.join(directory, `weights-${version}.json`);
  const weights = { name: String(version), skill, seed: version };
  await writeFile(file, JSON.stringify(weights));
  return {
    version,
    weights: { kind: 'checkpoint', path: file },
    probe: { prompt_ids: PROBE_IDS, logprobs: promptLogprobs(weights, PROBE_IDS) },
  };
}

/** Publishes as a trainer does, for the service `default`. */
export async function publish(
  server: TestServer,
  { task_queue, ...input }: PublishInput & { task_queue: string },
): Promise<PublishResult> {
  const client = await connectPolicy(onLoopback(server), { service: 'default', task_queue });
  try {
    return await client.publish(input);
  } finally {
    await client.close();
  }
}

export const policyStatus = ({ client }: TestServer): Promise<PolicyStatus> =>
  client.workflow.getHandle('policy/default').query<PolicyStatus>('status');

/** With the deployment settings of the first worker. */
async function startTrainer(input: PublishInput, directory: string): Promise<Child> {
  const file = path.join(directory, `publish-${input.version}.json`);
  await writeFile(file, JSON.stringify(input));
  const settings = path.join(directory, 'worker-1.yaml');
  return await startChild({
    command: process.execPath,
    args: [MAIN, 'policy', 'publish', '--config', settings, '--input', file],
    cwd: directory,
    env: stackEnvironment(process.env),
    logFile: path.join(directory, 'trainer.log'),
    ends: 'pipe',
  });
}

const LOOK_EVERY_MS = 100;

function watchPauses(engines: readonly Engine[]): { stop: () => Promise<number> } {
  const end = new AbortController();
  let longest_s = 0;
  const watch = async (engine: Engine): Promise<void> => {
    let since: number | null = null;
    while (!end.signal.aborted) {
      if (!(await isPaused(engine))) since = null;
      else since ??= performance.now();
      if (since !== null) longest_s = Math.max(longest_s, (performance.now() - since) / 1000);
      await sleep(LOOK_EVERY_MS);
    }
  };
  const watching = Promise.all(engines.map(watch));
  return {
    stop: async () => {
      end.abort();
      await watching;
      return longest_s;
    },
  };
}

/** A missing engine is not paused. */
export async function isPaused(engine: Engine): Promise<boolean> {
  try {
    const response = await fetch(`${engine.process().url}/is_paused`);
    return ((await response.json()) as { is_paused: boolean }).is_paused;
  } catch {
    return false;
  }
}

/** Of a service, in a store of files. */
export async function lastRecord(folder: string): Promise<PolicyRecord | null> {
  const names = await readdir(folder).catch(() => []);
  const epochs = names.flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? []).map(Number);
  if (epochs.length === 0) return null;
  const text = await readFile(path.join(folder, `${Math.max(...epochs)}.json`), 'utf8');
  return PolicyRecord.parse(JSON.parse(text));
}
