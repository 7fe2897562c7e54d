import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import type { z } from 'zod';
import type { PolicyStatus, PublishResult } from '../../src/activities/contract/policy.js';
import { LOOPBACK_CHANNEL, onLoopback } from '../../src/client/server.js';
import type { Kind } from '../../src/generation/adapters.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { promptLogprobs } from '../../simulator/weights.js';
import type { Publish } from '../../src/model/policy/orders.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import type { Child } from '../../dev/child.js';
import type { RecoveryBatch, RecoveryBed, RecoveryBedOptions } from './bed.js';
import { startRecoveryBed } from './bed.js';
import { startLogged } from './command.js';
import { watchPauses } from './engine.js';
import type { KeptWorker } from './kept-worker.js';
import type { LabelReport } from './policy-labels.js';
import { checkLabels } from './policy-labels.js';
import type { PolicyStoreKind } from './policy-store.js';
import { openPolicyStore } from './policy-store.js';
import type { TestServer } from './server.js';
import type { StreamToTest } from './stream.js';
import { openStreamToTest } from './stream.js';

type PublishInput = z.input<typeof Publish>;

/** A bed with simulators that know their weights, one worker, and a policy. */
export interface PolicyBed extends Omit<RecoveryBed, 'batch'> {
  /** Of its engines. */
  kind: Kind;
  worker: KeptWorker;
  batch: (batch_id: string) => RecoveryBatch;
  stream: (id: string) => StreamToTest;
  /** Journals folder of a batch or a stream, in a store of files. */
  journals: (id: string) => string;
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
}

export interface PolicyBedOptions extends Omit<RecoveryBedOptions, 'store' | 'env'> {
  /** Default: `POLICY_ENGINE`, or vLLM. */
  engine?: Kind;
  store?: PolicyStoreKind;
  /** Skill of all weights; without it they differ in skill. */
  skill?: number;
}

export const TASK_QUEUE = 'policy-bed';
const PROBE_IDS = [10, 200, 33, 7, 91, 4, 150, 60];

export async function startPolicyBed({
  store: kind = 'file',
  engine = (process.env['POLICY_ENGINE'] ?? 'vllm') as Kind,
  simulator = {},
  generation = {},
  skill,
  ...options
}: PolicyBedOptions): Promise<PolicyBed> {
  const store = await openPolicyStore(kind);
  const bed = await startRecoveryBed({
    replicas: 2,
    ...options,
    generation: { kind: engine, ...generation },
    simulator: {
      dialect: engine,
      dev_mode: true,
      scale_out: true,
      tokens_per_second: 200,
      thinking_tokens: 60,
      ...simulator,
    },
    store: (_, root) => store.config(root),
    env: () => store.env,
  }).catch(async (error: unknown) => {
    await store.end();
    throw error;
  });
  const { directory, engines, server, ending } = bed;
  ending(store.end);
  try {
    const store_root = bed.storeRoot(TASK_QUEUE);
    await store.prepare(store_root);
    const worker = await bed.startWorker(TASK_QUEUE, 'worker');
    // It survives the server's restarts on the same port; waiting calls continue.
    const { address, namespace } = server();
    const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
    ending(() => connection.close());
    const trainer = new Client({ connection, namespace });
    return {
      ...bed,
      kind: engine,
      worker,
      batch: (batch_id) => bed.batch(TASK_QUEUE, batch_id),
      weights: (version) => weightsOf(version, { directory, skill }),
      publish: (input) => publish(server(), { task_queue: TASK_QUEUE, ...input }),
      stream: (id) =>
        openStreamToTest({ client: () => trainer, store_root, id, task_queue: TASK_QUEUE }),
      journals: (id) => path.join(store_root, id, 'journals'),
      startTrainer: (input) => startTrainer(input, { directory, env: store.env }),
      watchPauses: () => watchPauses(engines),
      status: () => policyStatus(server()),
      record: () => store.record(store_root),
      check: async (batch_id) =>
        checkLabels({ journals: await store.journals(store_root, batch_id), engines }),
    };
  } catch (error) {
    await bed.end();
    throw error;
  }
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
    return await client.update('publish', input);
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
  const logFile = path.join(directory, 'trainer.log');
  const args = ['policy', 'publish', '--config', settings, '--input', file];
  return await startLogged(args, { cwd: directory, logFile, env });
}
