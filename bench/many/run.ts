import { readFile, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { WorkflowHandle } from '@temporalio/client';
import { ServiceError } from '@temporalio/client';
import type { BatchResult } from '../../src/activities/contract.js';
import type { Config } from '../../src/workers/config.js';
import { memoryOf } from '../../src/workers/config.js';
import { cutByOpenFiles } from '../../src/workers/open-files.js';
import { outputsRoot } from '../../src/workers/open-store.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { WorkerProcess } from '../../test/harness/worker-process.js';
import { startWorkerProcess } from '../../test/harness/worker-process.js';
import { closingTimes, historySizes } from '../histories.js';
import type { HistorySizes } from '../histories.js';
import { GENERATION, MAX_SEQ_LEN } from '../scenario.js';
import type { Stack } from '../stack.js';
import { workerConfig } from '../stack.js';
import type { JournalBytes } from './journal-bytes.js';
import { journalBytes } from './journal-bytes.js';
import type { Loop, PerPart, Reading, Watched } from './readings.js';
import { loopBetween, readAll } from './readings.js';
import { phaseLine } from './report.js';

/** Many rollouts in flight at once. */
export interface ManyOptions {
  rollouts: number;
  workers: number;
  turns: number;
  turn_ms: number;
  /** Sent one by one over the whole turn; null: an answer of some 25 comes whole at its end. */
  tokens: number | null;
  /** `worker.memory` of each. */
  memory: string;
  turn_slice: string;
  /** null: the default. */
  heartbeat_timeout: string | null;
  /** It fails if it has not ended by then. */
  limit_ms: number;
}

/** Part of a run, with what was read at its begin and its end. */
export interface Phase {
  name: 'starting' | 'waiting' | 'first turns' | 'playing' | 'ending';
  /** What it does, to divide by: rollouts started, turns played, rollouts ended; seconds of waiting rollouts. */
  count: number;
  before: Reading;
  after: Reading;
  loop: Loop;
}

export interface ManyRun extends ManyOptions {
  /** Nothing plays yet. */
  idle: Reading;
  /** What idle processes take in a second. */
  idle_cpu_ms: PerPart;
  phases: Phase[];
  histories: HistorySizes;
  closing_s: number;
  journals: JournalBytes;
  database_mb: number;
}

export const REPEATS = 8;
/** The held first turns are let go over one turn's time in so many parts: rollouts of a batch are never in step. */
const PARTS = 40;
const WAITING_MS = 20_000;
const IDLE_AFTER_MS = 4000;
const IDLE_MS = 8000;
const POLL_MS = 500;
/** Turns of this share of their mean at least and at most. */
const SPREAD = 0.3;
const NUDGE_MS = 50;
/** As an engine sends tokens. */
const ONE_BY_ONE = { fault: 'merged_deltas', tokens: 1, times: null } as const;

export async function measureMany(
  stack: Stack & { metrics_port: number },
  { say, ...options }: ManyOptions & { say: (line: string) => void },
): Promise<ManyRun> {
  const started = await startWorkers(stack, options);
  const { workers, loops, directory } = started;
  const watched: Watched = {
    server: stack.server.pid,
    workers: workers.map(({ pid }) => pid),
    simulator: stack.simulator.pid,
    metrics_port: stack.metrics_port,
  };
  const pace = keepPace(stack, options);
  try {
    await sleep(IDLE_AFTER_MS);
    const before = await readAll(watched);
    await sleep(IDLE_MS);
    const idle = await readAll(watched);
    const phases: Phase[] = [];
    const phase = async (name: Phase['name'], run: () => Promise<number>): Promise<void> => {
      const before = phases.at(-1)?.after ?? idle;
      const count = await run();
      const after = await readAll(watched);
      const loop = await loopBetween(loops, { from: before.at_ms, to: after.at_ms });
      phases.push({ name, count, before, after, loop });
      say(`  ${phaseLine({ name, count, before, after, loop })}`);
    };
    await play(stack, { ...options, directory, phase });
    return {
      ...options,
      idle,
      idle_cpu_ms: idleCost(before, idle),
      phases,
      histories: await historySizes(stack.client),
      closing_s: (await closingTimes(stack.client)).batch_s,
      journals: await journalBytes(path.join(directory, 'journals')),
      database_mb: await databaseMb(stack.folder),
    };
  } finally {
    pace.end();
    await Promise.all(workers.map((worker) => worker.stop()));
  }
}

const idleCost = (before: Reading, after: Reading): PerPart => {
  const of = (part: keyof PerPart): number =>
    (1000 * (after.cpu_ms[part] - before.cpu_ms[part])) / (after.at_ms - before.at_ms);
  return { server: of('server'), workers: of('workers'), simulator: of('simulator') };
};

const TASK_QUEUE = 'many';
const BATCH = 'many';

async function startWorkers(
  stack: Stack,
  { workers, memory, turn_slice, heartbeat_timeout, rollouts }: ManyOptions,
): Promise<{ workers: WorkerProcess[]; loops: string[]; directory: string }> {
  const parsed = workerConfig(stack, { task_queue: TASK_QUEUE, turn_slice, memory });
  // The first turns are held until all rollouts have one.
  const generation = Object.fromEntries(
    Object.entries(parsed.generation).map(([name, service]) => [
      name,
      { ...service, first_token_timeout: '1h', max_concurrent: rollouts },
    ]),
  );
  const worker = { ...parsed.worker, heartbeat_timeout, max_generations: rollouts };
  const config = { ...parsed, generation, worker };
  checkPlaces(config, rollouts / workers);
  const preload = pathToFileURL(path.join(PROJECT_ROOT, 'bench', 'many', 'loop-delay.mjs')).href;
  const names = Array.from({ length: workers }, (_, i) => `worker-${i}`);
  const loops = names.map((name) => path.join(stack.folder, `${name}.loop`));
  const running = await Promise.all(
    names.map((name, i) =>
      startWorkerProcess({
        directory: stack.folder,
        config,
        name,
        env: { NODE_OPTIONS: `--import ${preload}`, LOOP_DELAY_FILE: loops[i] ?? '' },
      }),
    ),
  );
  return { workers: running, loops, directory: path.join(outputsRoot(config), BATCH) };
}

/** All rollouts are in flight before the first turn ends, so each needs a place. */
function checkPlaces(config: Config, rollouts: number): void {
  const { generations, cached_workflows } = memoryOf(config);
  if (Math.min(generations, cached_workflows) >= rollouts) return;
  const why =
    cutByOpenFiles(config) ?? `worker.memory ${config.worker.memory} has no room for more`;
  throw new Error(`expected room for ${rollouts} rollouts in each worker, got ${generations} generations and ${cached_workflows} workflows: ${why}`); // prettier-ignore
}

/** Draws the time of the next turns again and again, so that they are not all alike. */
function keepPace({ simulator }: Stack, { turn_ms, tokens }: ManyOptions): { end: () => void } {
  if (tokens !== null) return { end: () => undefined };
  let isOver = false;
  const nudge = async (): Promise<void> => {
    while (!isOver) {
      const ms_to_first_token = turn_ms * (1 + SPREAD * (2 * Math.random() - 1));
      await simulator.change({ ms_to_first_token }).catch(() => undefined);
      await sleep(NUDGE_MS);
    }
  };
  void nudge();
  return {
    end: () => {
      isOver = true;
    },
  };
}

async function play(
  stack: Stack,
  {
    rollouts,
    turns,
    turn_ms,
    tokens,
    limit_ms,
    directory,
    phase,
  }: ManyOptions & {
    directory: string;
    phase: (name: Phase['name'], run: () => Promise<number>) => Promise<void>;
  },
): Promise<void> {
  const deadline = performance.now() + limit_ms;
  const until = async (what: string, is: () => Promise<boolean>): Promise<void> => {
    while (!(await is())) {
      if (performance.now() > deadline)
        throw new Error(`${what}: not within ${limit_ms / 60_000} minutes`);
      await sleep(POLL_MS);
    }
  };
  const { simulator } = stack;
  const each = Math.floor(rollouts / PARTS);
  for (let part = 1; part < PARTS; part++) await simulator.inject({ fault: 'hold', times: each });
  await simulator.inject({ fault: 'hold', times: null });
  let over: { result: BatchResult } | { error: unknown } | null = null;
  const isOver = (): boolean => {
    if (over !== null && 'error' in over) throw over.error;
    return over !== null;
  };
  await phase('starting', async () => {
    const handle = await stack.client.workflow.start('rolloutBatch', {
      workflowId: BATCH,
      taskQueue: TASK_QUEUE,
      args: [
        {
          samples: { path: path.basename(stack.samplesFile) },
          limit: rollouts / REPEATS,
          num_repeats: REPEATS,
          generation: GENERATION,
          max_seq_len: 2 * MAX_SEQ_LEN,
          max_rollout_turns: turns,
          max_in_flight: rollouts,
          rollout_timeout: '2h',
        },
      ],
    });
    resultOf(handle).then(
      (result) => (over = { result }),
      (error: unknown) => (over = { error }),
    );
    await until('all rollouts in flight', async () => isOver() || (await held(stack)) >= rollouts);
    return rollouts;
  });
  await phase('waiting', async () => {
    await sleep(WAITING_MS);
    return (rollouts * WAITING_MS) / 1000;
  });
  const finished = async (least: number): Promise<number> => {
    let turns = 0;
    await until('turns', async () => isOver() || (turns = await finishedTurns(stack)) >= least);
    return turns;
  };
  let first = 0;
  await phase('first turns', async () => {
    const held = await holds(stack);
    if (tokens !== null) await simulator.inject(ONE_BY_ONE);
    for (const id of held) {
      await fetch(`${simulator.url}/simulator/faults/${id}`, { method: 'DELETE' });
      await sleep(turn_ms / PARTS);
    }
    return (first = await finished(1.5 * rollouts));
  });
  // The last turns are left to the next phase: between them rollouts end.
  await phase('playing', async () => (await finished(rollouts * (turns - 2))) - first);
  await phase('ending', async () => {
    await until('the result', () => Promise.resolve(isOver()));
    return rollouts;
  });
  const { result } = over as unknown as { result: BatchResult };
  await check(result, { rollouts, turns, directory });
}

/** Each rollout has its row, and has played all its turns. */
async function check(
  { counts, metrics }: BatchResult,
  { rollouts, turns, directory }: { rollouts: number; turns: number; directory: string },
): Promise<void> {
  const text = await readFile(path.join(directory, 'rollouts.jsonl'), 'utf8');
  const ids = new Set(
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { rollout_id: string }).rollout_id),
  );
  const played = metrics['total_turns'];
  if (counts.completed !== rollouts || ids.size !== rollouts || played !== rollouts * turns)
    throw new Error(
      `expected ${rollouts} rollouts of ${turns} turns, got ${JSON.stringify(counts)}, ${ids.size} rows and ${String(played)} turns`,
    );
}

async function databaseMb(folder: string): Promise<number> {
  const names = (await readdir(folder)).filter((name) => name.startsWith('temporal.db'));
  const sizes = await Promise.all(names.map((name) => stat(path.join(folder, name))));
  return sizes.reduce((sum, { size }) => sum + size, 0) / 1e6;
}

interface Faults {
  faults: { id: string; hits: number }[];
}

const faultsOf = async ({ simulator }: Stack): Promise<Faults['faults']> =>
  ((await (await fetch(`${simulator.url}/simulator/faults`)).json()) as Faults).faults;

const held = async (stack: Stack): Promise<number> =>
  (await faultsOf(stack)).reduce((sum, { hits }) => sum + hits, 0);

const holds = async (stack: Stack): Promise<string[]> =>
  (await faultsOf(stack)).map(({ id }) => id);

async function finishedTurns({ simulator }: Stack): Promise<number> {
  const text = await (await fetch(`${simulator.url}/metrics`)).text();
  const lines = [...text.matchAll(/^vllm:request_success_total\{.*"(?:stop|length)".*\} (\S+)$/gm)];
  return lines.reduce((sum, [, value]) => sum + Number(value), 0);
}

/** A server that is late answers a question for a result with its deadline; then it is asked again. */
async function resultOf(handle: WorkflowHandle): Promise<BatchResult> {
  for (;;) {
    try {
      return (await handle.result()) as BatchResult;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
    }
    await sleep(POLL_MS);
  }
}
