import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { z } from 'zod';
import type { PolicyStatus, PublishResult } from '../../src/activities/contract.js';
import { onLoopback } from '../../src/client/batch-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import type { LogLine, RequestEntry } from '../../src/dev/simulator/request-log.js';
import { promptLogprobs } from '../../src/dev/simulator/weights.js';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import type { Publish } from '../../src/model/policy/publish.js';
import { PolicyRecord } from '../../src/model/policy/record.js';
import type { Trajectory } from '../../src/model/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/trajectory.js';
import type { RecoveryBatch } from './recovery-bed.js';
import { openBatch } from './recovery-bed.js';
import type { OwnServer, TestServer } from './dev-server.js';
import { PROJECT_ROOT, startOwnServer, startTestServer } from './dev-server.js';
import type { KeptWorker } from './kept-worker.js';
import { keepWorker } from './kept-worker.js';
import type { SimulatorProcess, SimulatorProcessOptions } from './simulator-process.js';
import { requestLogOf, startSimulatorProcess } from './simulator-process.js';
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
  /** Writes the weights of this version, and returns what a trainer publishes for them. */
  weights: (version: number) => Promise<PublishInput>;
  publish: (input: PublishInput) => Promise<PublishResult>;
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
  /** On the same port, with the weights that it starts with. */
  start: () => Promise<void>;
}

export interface PolicyBedOptions {
  name: string;
  /** A Temporal server that no other file uses; it may be killed. */
  own_server?: boolean;
  replicas?: number;
  simulator?: SimulatorProcessOptions['settings'];
  generation?: Partial<WorkerConfig['generation'][string]>;
  worker?: WorkerConfig['worker'];
}

export const TASK_QUEUE = 'policy-bed';
const PROBE_IDS = [10, 200, 33, 7, 91, 4, 150, 60];

export async function startPolicyBed({
  name,
  own_server = false,
  replicas = 2,
  simulator = {},
  generation = {},
  worker: more = {},
}: PolicyBedOptions): Promise<PolicyBed> {
  const { path: directory, remove } = await makeTemporaryDirectory(name);
  const db_file = path.join(directory, 'database', 'temporal.db');
  let server: TestServer | OwnServer = own_server
    ? await startOwnServer({ directory, db_file })
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
      environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
      worker: { heartbeat_timeout: '2s', turn_slice: '500ms', ...more },
    },
    pipe_log: false,
  });
  const current = (): TestServer => server;
  return {
    server: current,
    engines,
    worker,
    killServer: async () => {
      process.kill(own().pid, 'SIGKILL');
      await server.stop();
    },
    startServer: async () => {
      server = await startOwnServer({ directory, db_file, ports: own().ports });
    },
    batch: (batch_id) =>
      openBatch({ server: current, store_root, task_queue: TASK_QUEUE, batch_id }),
    weights: (version) => weightsOf(version, directory),
    publish: (input) => publish(current(), input),
    status: () =>
      current().client.workflow.getHandle('policy/default').query<PolicyStatus>('status'),
    record: () => lastRecord(path.join(store_root, '_policy', 'default')),
    check: (batch_id) =>
      checkLabels({ journals: path.join(store_root, batch_id, 'journals'), engines }),
    end: async () => {
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
  let process = await startSimulatorProcess({ directory, port: 0, settings });
  const { port, url } = process;
  return {
    replica: `${url}/v1`,
    directory,
    process: () => process,
    kill: async () => {
      await process.kill();
    },
    start: async () => {
      process = await startSimulatorProcess({ directory, port, settings });
    },
  };
}

/** The probe says what the file's weights make of a prompt. */
async function weightsOf(version: number, directory: string): Promise<PublishInput> {
  const file = path.join(directory, `weights-${version}.json`);
  const weights = { name: String(version), skill: 1 + (version % 3), seed: version };
  await writeFile(file, JSON.stringify(weights));
  return {
    version,
    weights: { kind: 'checkpoint', path: file },
    probe: { prompt_ids: PROBE_IDS, logprobs: promptLogprobs(weights, PROBE_IDS) },
  };
}

async function publish(server: TestServer, input: PublishInput): Promise<PublishResult> {
  const client = await connectPolicy(onLoopback(server), {
    service: 'default',
    task_queue: TASK_QUEUE,
  });
  try {
    return await client.publish(input);
  } finally {
    await client.close();
  }
}

async function lastRecord(folder: string): Promise<PolicyRecord | null> {
  const names = await readdir(folder).catch(() => []);
  const epochs = names.flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? []).map(Number);
  if (epochs.length === 0) return null;
  const text = await readFile(path.join(folder, `${Math.max(...epochs)}.json`), 'utf8');
  return PolicyRecord.parse(JSON.parse(text));
}

export interface LabelReport {
  tokens: number;
  /** Whose label is of other weights than the engine sampled them with, or that are of half-loaded ones. */
  wrong: string[];
  /** Tokens without a label. */
  unlabelled: number;
  labels: Record<string, number>;
  /** Sent by an engine for a place of a turn for which one had been sent before. */
  sampled_twice: number;
  /** Requests for a turn whose generation stood in the journal before its claim. */
  turns_generated_twice: number;
  rollouts: number;
}

/** Every token that counts in the journals, against what the engines say they sampled it with. */
async function checkLabels({
  journals,
  engines,
}: {
  journals: string;
  engines: readonly Engine[];
}): Promise<LabelReport> {
  const logged = await requestsOf(engines);
  const report: LabelReport = { tokens: 0, wrong: [], unlabelled: 0, labels: {}, sampled_twice: 0, turns_generated_twice: 0, rollouts: 0 }; // prettier-ignore
  const batch = path.basename(path.dirname(journals));
  for (const file of await readdir(journals)) {
    const text = await readFile(path.join(journals, file), 'utf8');
    const trajectory = emptyTrajectory();
    for (const line of text.split('\n').map(parseLine))
      if (line !== null) applyLine(trajectory, line);
    report.rollouts += 1;
    const own = logged.filter(({ rollout_id }) => rollout_id === `${batch}/${file.replace('.jsonl', '')}`); // prettier-ignore
    report.turns_generated_twice += requestsForWhole(text.split('\n').map(parseLine), own);
    const kept = judge(trajectory, { own, report });
    const sent = own.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
    report.sampled_twice += Math.max(0, sent - kept);
  }
  return report;
}

/** A claim that stands behind a turn's generation belongs to a writer that has nothing to ask for that turn. */
function requestsForWhole(
  lines: readonly (JournalLine | null)[],
  own: readonly RequestEntry[],
): number {
  const whole = new Set<number>();
  const known = new Map<string, Set<number>>();
  for (const line of lines) {
    if (line?.kind === 'claim') known.set(line.writer, new Set(whole));
    if (line?.kind === 'generation') whole.add(line.turn);
  }
  return own.filter(({ writer, turn }) => known.get(writer ?? '')?.has(turn ?? -1) === true).length;
}

/** Returns how many of its tokens count. */
function judge(
  { start, turns, open }: Trajectory,
  { own, report }: { own: readonly RequestEntry[]; report: LabelReport },
): number {
  let context = (start?.prompt ?? []).reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  let kept = 0;
  for (const turn of [...turns, { ...open, observation: null }]) {
    for (const { start: first, end, request_id, policy_version } of turn.segments) {
      const label = policy_version ?? 'none';
      report.labels[label] = (report.labels[label] ?? 0) + end - first;
      if (policy_version === null) report.unlabelled += end - first;
      for (let place = first; place < end; place++) {
        // One attempt may send several requests of one id: the last that began before the place had its token.
        const request = own.findLast(
          (one) => one.request_id === request_id && (one.prompt_tokens ?? 0) - context <= place,
        );
        const at = place - ((request?.prompt_tokens ?? 0) - context);
        const weights = request?.weights.find((run) => run.start <= at && at < run.end)?.weights;
        const isRight = weights !== undefined && !weights.startsWith('half');
        if (!isRight || (policy_version !== null && weights !== policy_version))
          report.wrong.push(`${request_id} ${place}: ${label}, sampled with ${weights ?? 'none'}`);
      }
    }
    kept += turn.token_ids.length;
    context += turn.token_ids.length + (turn.observation?.token_ids.length ?? 0);
  }
  report.tokens += kept;
  return kept;
}

/** As the engines' logs have them last, in the order of their arrival, whichever process wrote it. */
async function requestsOf(engines: readonly Engine[]): Promise<RequestEntry[]> {
  const requests = new Map<string, RequestEntry>();
  for (const { directory } of engines) {
    const text = await readFile(requestLogOf(directory), 'utf8').catch(() => '');
    for (const line of text.split('\n').slice(0, -1)) {
      const entry = JSON.parse(line) as LogLine;
      const id = `${entry.request_id ?? ''} ${entry.at}`;
      const before = requests.get(id);
      if (entry.event !== 'sent') requests.set(id, entry);
      else if (before !== undefined)
        requests.set(id, { ...before, tokens_sent: entry.tokens_sent, weights: entry.weights });
    }
  }
  return [...requests.values()].sort((a, b) => (a.at < b.at ? -1 : 1));
}
