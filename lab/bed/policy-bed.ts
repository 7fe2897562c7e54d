import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import type { z } from 'zod';
import type { PolicyStatus, PublishResult } from '../../src/activities/contract/policy.js';
import { LOOPBACK_CHANNEL, onLoopback } from '../../src/client/server.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { promptLogprobs } from '../../simulator/weights.js';
import { stackEnvironment } from '../../src/dev/stack-environment.js';
import type { Publish } from '../../src/model/policy/publish.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import type { Child } from '../../src/platform/process/child.js';
import { startChild } from '../../src/platform/process/child.js';
import type { RecoveryBatch } from './bed.js';
import { openBatch } from './bed.js';
import type { OwnServer, TestServer } from './server.js';
import { MAIN } from './command.js';
import { PROJECT_ROOT, startOwnServer, startTestServer } from './server.js';
import type { KeptWorker } from './kept-worker.js';
import { keepWorker } from './kept-worker.js';
import type { Engine } from './engine.js';
import { startEngine, watchPauses } from './engine.js';
import type { LabelReport } from './policy-labels.js';
import { checkLabels } from './policy-labels.js';
import type { PolicyStoreKind } from './policy-store.js';
import { openPolicyStore } from './policy-store.js';
import type { SimulatorProcessOptions } from './simulator.js';
import type { StreamToTest } from './stream.js';
import { openStreamToTest } from './stream.js';
import { makeTemporaryDirectory } from './temporary-directory.js';
import type { WorkerConfig } from './worker.js';

type PublishInput = z.input<typeof Publish>;

/** A server, simulators that know their weights, and a worker; each may be killed and started again. */
export interface PolicyBed {
  server: () => TestServer;
  killServer: () => Promise<void>;
  startServer: () => Promise<void>;
  engines: Engine[];
  /** Another one, which no settings name. It is among `engines` from here on. */
  addEngine: () => Promise<Engine>;
  worker: KeptWorker;
  batch: (batch_id: string) => RecoveryBatch;
  stream: (id: string) => StreamToTest;
  /** Journals folder of a batch or a stream, in a store of files. */
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

export interface PolicyBedOptions {
  name: string;
  /** A Temporal server that no other test file uses, so it may be killed. */
  own_server?: boolean;
  /** false: its own server serves in order of arrival. */
  shares?: boolean;
  replicas?: number;
  /** Each engine may be cut off from the workers. */
  has_networks?: boolean;
  store?: PolicyStoreKind;
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
  has_networks: has_network = false,
  store: kind = 'file',
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
  let started = 0;
  const addEngine = async (): Promise<Engine> => {
    const folder = path.join(directory, `engine-${started++}`);
    const engine = await startEngine(folder, { settings, has_network });
    engines.push(engine);
    return engine;
  };
  for (let i = 0; i < replicas; i++) await addEngine();
  const store_root = path.join(directory, 'store');
  const store = await openPolicyStore(kind, store_root);
  const worker = await keepWorker({
    directory,
    name: 'worker',
    config: {
      temporal: { address: server.address, namespace: server.namespace, task_queue: TASK_QUEUE },
      store: store.config,
      inputs_dir: PROJECT_ROOT,
      generation: {
        default: { kind: 'vllm', base_urls: engines.map(({ replica }) => replica), ...generation },
      },
      environments,
      worker: { heartbeat_timeout: '2s', turn_slice: '500ms', ...more },
    },
    pipe_log: false,
    env: store.env,
  });
  const current = (): TestServer => server;
  // It survives the server's restarts on the same port; waiting calls continue.
  const connection = await Connection.connect({
    address: server.address,
    channelArgs: LOOPBACK_CHANNEL,
  });
  const trainer = new Client({ connection, namespace: server.namespace });
  return {
    server: current,
    engines,
    addEngine,
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
    startTrainer: (input) => startTrainer(input, { directory, env: store.env }),
    watchPauses: () => watchPauses(engines),
    status: () => policyStatus(current()),
    record: store.record,
    check: async (batch_id) => checkLabels({ journals: await store.journals(batch_id), engines }),
    end: async () => {
      await connection.close();
      await worker.stop();
      await Promise.all(engines.map((engine) => engine.end()));
      await server.stop();
      await store.end();
      await remove();
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
async function startTrainer(
  input: PublishInput,
  { directory, env }: { directory: string; env: Record<string, string> },
): Promise<Child> {
  const file = path.join(directory, `publish-${input.version}.json`);
  await writeFile(file, JSON.stringify(input));
  const settings = path.join(directory, 'worker-1.yaml');
  return await startChild({
    command: process.execPath,
    args: [MAIN, 'policy', 'publish', '--config', settings, '--input', file],
    cwd: directory,
    env: { ...stackEnvironment(process.env), ...env },
    logFile: path.join(directory, 'trainer.log'),
    ends: 'pipe',
  });
}
