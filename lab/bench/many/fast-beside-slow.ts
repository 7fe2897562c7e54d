import path from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import type { BatchProgress, BatchResult } from '../../../src/activities/contract.js';
import { outputsRoot } from '../../../src/workers/open-store.js';
import { eventually } from '../../bed/waiting.js';
import { startEngine } from '../../bed/engine.js';
import { linesOf, textsInFolder } from '../../bed/journal-texts.js';
import { readOptions } from '../../options.js';
import { median } from '../measure.js';
import { table } from '../report.js';
import { GENERATION } from '../scenario.js';
import type { Stack } from '../../bed/stack.js';
import { startBatch, startPuzzles, workerConfig } from '../puzzles.js';

const USAGE = `node --import tsx lab/bench/many/fast-beside-slow.ts [--slow N] [--fast N] [--turns N] [--rounds N]     after npm run build

One worker: a batch of turns of half a second, alone and beside a batch of turns of 6 s at another engine, which has more
rollouts in flight than the worker has slots (worker.memory 512MiB). They take turns.

  --slow N    rollouts in flight beside it; default 400
  --fast N    rollouts of the fast batch; default 32
  --turns N   of each of these; default 10
  --rounds N  default 3`;

/** Beside some 25 tokens of a move and its end. */
const FAST = { thinking_tokens: 0, tokens_per_second: 50 } as const;
const SLOW = { thinking_tokens: 95, tokens_per_second: 20 } as const;
const MEMORY = '512MiB';
const TASK_QUEUE = 'beside';
/** Rollouts are in the midst of turns, each somewhere else. */
const SETTLED_TURNS = 2;
const BEGINS_WITHIN_MS = 300_000;

const { slow, fast, turns, rounds } = readOptions(
  { usage: USAGE },
  {
    slow: 400,
    fast: 32,
    turns: 10,
    rounds: 3,
  },
);

/** Seconds, of the fast batch. */
interface Played {
  wall_s: number;
  /** From the start to the first line of the middle rollout. */
  opened_s: number;
  /** Of a turn, until it had a place at the engine. */
  place_s: number;
  /** From the first line of the middle rollout to its last. */
  played_s: number;
}

const start = (stack: Stack, asked: { id: string } & Record<string, unknown>) =>
  startBatch(stack, { task_queue: TASK_QUEUE, num_repeats: 1, rollout_timeout: '2h', ...asked });

const startSlow = (stack: Stack, id: string): Promise<WorkflowHandle> =>
  start(stack, {
    id,
    limit: slow,
    generation: { ...GENERATION, service: 'slow' },
    max_seq_len: 32_768,
    max_rollout_turns: 1000,
    max_in_flight: slow,
  });

async function playFast(stack: Stack, { id, root }: { id: string; root: string }): Promise<Played> {
  const began_s = Date.now() / 1000;
  const handle = await start(stack, {
    id,
    limit: fast,
    max_rollout_turns: turns,
    max_in_flight: fast,
  });
  const { counts } = (await handle.result()) as BatchResult;
  const wall_s = Date.now() / 1000 - began_s;
  if (counts.completed !== fast)
    throw new Error(`${id}: expected ${fast} rollouts, got ${JSON.stringify(counts)}`);
  return { wall_s, ...(await timesOf(path.join(root, id, 'journals'), began_s)) };
}

async function timesOf(folder: string, began_s: number): Promise<Omit<Played, 'wall_s'>> {
  const [opened, played, places]: [number[], number[], number[]] = [[], [], []];
  for (const text of (await textsInFolder(folder)).values()) {
    const lines = linesOf(text);
    const [first = 0, last = 0] = [lines[0]?.at, lines.at(-1)?.at];
    opened.push(first - began_s);
    played.push(last - first);
    for (const line of lines) if (line.kind === 'generation') places.push(line.queue_s);
  }
  return {
    opened_s: median(opened),
    played_s: median(played),
    place_s: places.reduce((sum, one) => sum + one, 0) / Math.max(1, places.length),
  };
}

async function untilSettled(batch: WorkflowHandle): Promise<void> {
  await eventually({ what: 'turns of the slow batch', timeout_ms: BEGINS_WITHIN_MS }, async () => {
    const progress = await batch.query<BatchProgress>('progress').catch(() => null);
    return (progress?.turns ?? 0) >= SETTLED_TURNS * slow;
  });
}

const ROWS: readonly [string, (one: Played) => number][] = [
  ['the whole batch', ({ wall_s }) => wall_s],
  ['until the middle rollout has begun', ({ opened_s }) => opened_s],
  ['from then on', ({ played_s }) => played_s],
  ['a turn, until it has a place', ({ place_s }) => place_s],
];

function report(alone: readonly Played[], beside: readonly Played[]): string {
  const rows = ROWS.map(([what, of]) => {
    const [one, other] = [median(alone.map(of)), median(beside.map(of))];
    return [what, one.toFixed(2), other.toFixed(2), (other / one).toFixed(2)];
  });
  return table(
    [`${fast} rollouts of ${turns} turns`, 's alone', `s beside ${slow} slow ones`, 'ratio'],
    rows,
  );
}

const say = (line: string): void => {
  console.log(line);
};
const settings = { skill: 0, max_num_seqs: 100_000, max_model_len: 32_768 };
const stack = await startPuzzles(
  { rollouts: Math.max(slow, fast) },
  { simulator: { ...settings, ...FAST } },
);
const slowEngine = await startEngine(path.join(stack.directory, 'slow'), {
  settings: { ...settings, ...SLOW },
  logs: false,
});
stack.ending(slowEngine.end);
const parsed = workerConfig(stack, { task_queue: TASK_QUEUE, turn_slice: null, memory: MEMORY });
const [usual] = Object.values(parsed.generation);
if (usual === undefined) throw new Error('expected a generation service, got none');
const config = {
  ...parsed,
  generation: { ...parsed.generation, slow: { ...usual, base_urls: [slowEngine.replica] } },
};
await stack.startWorker({ ...config, task_queue: TASK_QUEUE });
const root = outputsRoot(config);
try {
  await playFast(stack, { id: 'warm', root });
  const [alone, beside]: [Played[], Played[]] = [[], []];
  for (let round = 1; round <= rounds; round++) {
    alone.push(await playFast(stack, { id: `alone-${round}`, root }));
    const batch = await startSlow(stack, `slow-${round}`);
    await untilSettled(batch);
    beside.push(await playFast(stack, { id: `fast-${round}`, root }));
    await batch.signal('stop');
    await batch.result();
    const [a, b] = [alone.at(-1)?.wall_s ?? 0, beside.at(-1)?.wall_s ?? 0];
    say(`  round ${round}: ${a.toFixed(1)} s alone, ${b.toFixed(1)} s beside`);
  }
  say(`\n${report(alone, beside)}`);
} finally {
  await stack.end();
}
