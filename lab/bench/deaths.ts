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

/**
 * `node --import tsx lab/bench/deaths.ts [kills] [project …]`, after `npm run build`: seconds from a worker's death to the
 * next token of its rollouts, with default timeouts. Further built projects, as one of an older release, take turns with
 * this one in the same run.
 */
const [KILLS = '2', ...OTHERS] = process.argv.slice(2);
const PROJECTS = [...OTHERS, PROJECT_ROOT];
const ROLLOUTS = 16;
/** Turns that last longer than the run, and a token every 50 ms. */
const SIMULATOR = { tokens_per_second: 20, thinking_tokens: 4000, max_model_len: 32_768, skill: 0 };
const FROZEN_MS = 30_000;
/** Tokens of living workers come more often. */
const UNDISTURBED_S = 2;
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

/** Characters of chunk lines in each journal. */
async function tokensOf({ stack, store }: Bed): Promise<Map<string, number>> {
  const folder = path.join(stack.store_root, store, 'journals');
  const names = await readdir(folder).catch(() => []);
  const sizes = names.map(async (name): Promise<[string, number]> => {
    const text = await readFile(path.join(folder, name), 'utf8');
    return [name, text.split('\n').filter((line) => line.includes('"kind":"chunk"')).length];
  });
  return new Map(await Promise.all(sizes));
}

/** Seconds from now to the next token of each rollout, without those that never stopped. */
async function untilNextTokens(bed: Bed): Promise<number[]> {
  const began = performance.now();
  const before = await tokensOf(bed);
  const next = new Map<string, number>();
  while (next.size < before.size) {
    await sleep(100);
    const passed_ms = performance.now() - began;
    if (passed_ms > GIVE_UP_MS)
      throw new Error(
        `${before.size - next.size} rollouts have no token after ${GIVE_UP_MS / 1000} s`,
      );
    for (const [name, tokens] of await tokensOf(bed))
      if (tokens > (before.get(name) ?? 0) && !next.has(name)) next.set(name, passed_ms / 1000);
  }
  return [...next.values()].filter((seconds) => seconds > UNDISTURBED_S);
}

/** Once: of a worker, and of the one that lives on. Returns who lives then. */
async function once(
  how: Case,
  { bed, workers }: { bed: Bed; workers: WorkerProcess[] },
): Promise<{ seconds: number[]; workers: WorkerProcess[] }> {
  const [victim, ...others] = workers;
  if (victim === undefined) throw new Error('no worker');
  if (how === 'frozen, another one lives') {
    victim.pause();
    const seconds = await untilNextTokens(bed);
    await sleep(Math.max(0, FROZEN_MS - 1000 * Math.max(...seconds)));
    victim.resume();
    return { seconds, workers: [...others, victim] };
  }
  await victim.kill('SIGKILL');
  const again = how === 'killed, started again' ? startWorker(bed) : null;
  const seconds = await untilNextTokens(bed);
  return { seconds, workers: [...others, await (again ?? startWorker(bed))] };
}

async function play(how: Case, bed: Bed): Promise<number[]> {
  let workers = [await startWorker(bed)];
  if (how !== 'killed, started again') workers.push(await startWorker(bed));
  const seconds: number[] = [];
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
    while ((await tokensOf(bed)).size < ROLLOUTS) await sleep(200);
    for (let kill = 0; kill < Number(KILLS); kill++) {
      await sleep(4000 + Math.random() * 3000);
      const { workers: then, seconds: took } = await once(how, { bed, workers });
      workers = then;
      seconds.push(...took);
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
  return seconds;
}

const stack = await startStack({
  name: 'deaths',
  own_server: true,
  in_memory: true,
  simulator: SIMULATOR,
});
try {
  console.log('| project | worker | rollouts | median s | slowest s |');
  console.log('| --- | --- | ---: | ---: | ---: |');
  for (const how of CASES)
    for (const [at, project_root] of PROJECTS.entries()) {
      const store = `deaths-${CASES.indexOf(how)}-${at}`;
      const seconds = await play(how, { stack, project_root, store });
      console.log(
        `| ${path.basename(project_root)} | ${how} | ${seconds.length} | ${median(seconds).toFixed(1)} | ${Math.max(...seconds).toFixed(1)} |`,
      );
    }
} finally {
  await stack.end();
}
