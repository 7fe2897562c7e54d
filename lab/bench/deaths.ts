import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startBatch } from '../bed/batch.js';
import { puzzleBatch } from '../bed/bed.js';
import { PROJECT_ROOT } from '../bed/server.js';
import type { Stack } from '../bed/stack.js';
import { startStack } from '../bed/stack.js';
import type { WorkerProcess } from '../bed/worker.js';
import { median } from './measure.js';
import { table } from './report.js';

/**
 * `node --import tsx lab/bench/deaths.ts [kills] [project …]`, after `npm run build`: seconds from a worker's death to the
 * next token of its rollouts, with default timeouts, and to the start of the next worker. Further built projects, as one of
 * an older release, take turns with this one in the same run.
 */
const [KILLS = '2', ...OTHERS] = process.argv.slice(2);
const PROJECTS = [...OTHERS, PROJECT_ROOT];
const ROLLOUTS = 16;
/** Turns that last longer than the run, and a token every 50 ms. */
const SIMULATOR = { tokens_per_second: 20, thinking_tokens: 4000, max_model_len: 32_768, skill: 0 };
const FROZEN_MS = 30_000;
const GIVE_UP_MS = 120_000;

type Case = 'killed, started again' | 'killed, another one lives' | 'frozen, another one lives';
const CASES: readonly Case[] = [
  'killed, started again',
  'killed, another one lives',
  'frozen, another one lives',
];

interface Bed {
  stack: Stack;
  project_root: string;
  store: string;
}

let started = 0;
const startWorker = ({ stack, project_root, store }: Bed): Promise<WorkerProcess> =>
  stack.startWorker({
    task_queue: store,
    name: `worker-${(started += 1)}`,
    project_root,
    inputs_dir: PROJECT_ROOT,
  });

interface Lines {
  chunks: number;
  claims: number;
}

/** Of each journal. */
async function linesOf({ stack, store }: Bed): Promise<Map<string, Lines>> {
  const folder = path.join(stack.store_root, store, 'journals');
  const names = await readdir(folder).catch(() => []);
  const all = names.map(async (name): Promise<[string, Lines]> => {
    const lines = (await readFile(path.join(folder, name), 'utf8')).split('\n');
    const of = (kind: string): number =>
      lines.filter((line) => line.includes(`"kind":"${kind}"`)).length;
    return [name, { chunks: of('chunk'), claims: of('claim') }];
  });
  return new Map(await Promise.all(all));
}

/** Seconds from now to the next token of each rollout that another attempt claims. The others never stopped. */
async function untilNextTokens(bed: Bed): Promise<number[]> {
  const began = performance.now();
  const before = await linesOf(bed);
  const next = new Map<string, number | null>();
  while (next.size < before.size) {
    await sleep(100);
    const passed_ms = performance.now() - began;
    if (passed_ms > GIVE_UP_MS)
      throw new Error(
        `${before.size - next.size} rollouts have no token after ${GIVE_UP_MS / 1000} s`,
      );
    for (const [name, { chunks, claims }] of await linesOf(bed)) {
      const old = before.get(name) ?? { chunks: 0, claims: 0 };
      if (chunks > old.chunks && !next.has(name))
        next.set(name, claims > old.claims ? passed_ms / 1000 : null);
    }
  }
  return [...next.values()].filter((seconds) => seconds !== null);
}

interface Death {
  /** Of each rollout that stopped, until its next token. */
  seconds: number[];
  /** Until another worker said that it has started; null: none was started for it. */
  started_s: number | null;
}

/** Once: of a worker, and of the one that lives on. Returns the workers that live then, too. */
async function once(
  how: Case,
  { bed, workers }: { bed: Bed; workers: WorkerProcess[] },
): Promise<Death & { workers: WorkerProcess[] }> {
  const [victim, ...others] = workers;
  if (victim === undefined) throw new Error('no worker');
  if (how === 'frozen, another one lives') {
    victim.pause();
    const seconds = await untilNextTokens(bed);
    await sleep(Math.max(0, FROZEN_MS - 1000 * Math.max(...seconds)));
    victim.resume();
    return { seconds, started_s: null, workers: [...others, victim] };
  }
  await victim.kill('SIGKILL');
  if (how === 'killed, another one lives') {
    const seconds = await untilNextTokens(bed);
    return { seconds, started_s: null, workers: [...others, await startWorker(bed)] };
  }
  const died = performance.now();
  const [seconds, { next, started_s }] = await Promise.all([
    untilNextTokens(bed),
    startWorker(bed).then((next) => ({ next, started_s: (performance.now() - died) / 1000 })),
  ]);
  return { seconds, started_s, workers: [...others, next] };
}

async function play(how: Case, bed: Bed): Promise<Death[]> {
  let workers = [await startWorker(bed)];
  if (how !== 'killed, started again') workers.push(await startWorker(bed));
  const deaths: Death[] = [];
  try {
    const request = puzzleBatch({
      samples: ROLLOUTS,
      repeats: 1,
      max_rollout_turns: 1,
      max_seq_len: 32_768,
    });
    await startBatch(bed.stack.batch(bed.store, bed.store), {
      ...request,
      generation: { ...request.generation, max_new_tokens: 16_000 },
    });
    const havePlayed = async (): Promise<boolean> => {
      const playing = [...(await linesOf(bed)).values()].filter(({ chunks }) => chunks > 0);
      return playing.length === ROLLOUTS;
    };
    while (!(await havePlayed())) await sleep(200);
    for (let kill = 0; kill < Number(KILLS); kill++) {
      await sleep(4000 + Math.random() * 3000);
      const { workers: then, ...death } = await once(how, { bed, workers });
      workers = then;
      deaths.push(death);
      const took = death.seconds;
      console.log(
        `  ${path.basename(bed.project_root)}, ${how}: ${took.length} rollouts, ${median(took).toFixed(1)} s, slowest ${Math.max(...took).toFixed(1)} s`,
      );
    }
  } finally {
    await bed.stack
      .server()
      .client.workflow.getHandle(bed.store)
      .terminate('measured')
      .catch(() => undefined);
    await Promise.all(workers.map((worker) => worker.kill('SIGKILL')));
  }
  return deaths;
}

const stack = await startStack({
  name: 'deaths',
  own_server: true,
  in_memory: true,
  simulator: SIMULATOR,
});
try {
  const rows: string[][] = [];
  for (const how of CASES)
    for (const [at, project_root] of PROJECTS.entries()) {
      const store = `deaths-${CASES.indexOf(how)}-${at}`;
      const deaths = await play(how, { stack, project_root, store });
      const seconds = deaths.flatMap((death) => death.seconds);
      const starts = deaths.flatMap(({ started_s }) => started_s ?? []);
      rows.push([
        ...(OTHERS.length > 0 ? [path.basename(project_root)] : []),
        how,
        String(seconds.length),
        median(seconds).toFixed(1),
        Math.max(...seconds).toFixed(1),
        starts.length > 0 ? median(starts).toFixed(1) : '-',
      ]);
    }
  const head = ['worker', 'rollouts', 'median s', 'slowest s', 'the next worker has started, s'];
  console.log(`\n${table([...(OTHERS.length > 0 ? ['project'] : []), ...head], rows)}`);
} finally {
  await stack.end();
}
