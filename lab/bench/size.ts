import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { BatchResult } from '../../src/activities/contract.js';
import { outputsRoot } from '../../src/workers/open-store.js';
import { createEndedRollouts } from './ended-rollouts.js';
import type { ClosingTimes, HistorySizes } from './histories.js';
import { closingTimes, historySizes } from './histories.js';
import type { Part } from './measure.js';
import { perPart } from './measure.js';
import { cpuMs, peakMb, residentMb } from './process-usage.js';
import type { Stack } from '../bed/stack.js';
import { checkPlayed, startBatch, workerConfig } from './puzzles.js';

/** One large batch on one machine: groups of eight and five turns each, measured in windows. */
export const SIZE = { rollouts: 10_000, repeats: 8, turns: 5, window: 1000, memory: '1GiB' };

const MAX_IN_FLIGHT = 256;
const LIMIT_MS = 40 * 60_000;
const POLL_MS = 250;
/** A worker that has just started still allocates. */
const IDLE_AFTER_MS = 4000;
/** A server and its queues are still busy when the result arrives; that work belongs to the run. */
const SETTLE_MS = 1000;

type PerPart = Record<Part, number>;

export interface SizeOptions {
  rollouts: number;
  /** `worker.memory`. */
  memory: string;
}

/** The processes at one moment of the run. */
export interface Moment {
  wall_s: number;
  /** Rollouts that have ended. */
  ended: number;
  /** Since each process started. */
  cpu_ms: PerPart;
  resident_mb: PerPart;
}

export interface SizeRun extends SizeOptions {
  /** From the start of the batch to its result. */
  wall_s: number;
  /** At the start, after each window, at the last end, and a second after the result. */
  moments: Moment[];
  closing: ClosingTimes;
  /** Peaks over the whole life of each process. */
  peak_mb: PerPart;
  histories: HistorySizes;
  files_mb: { database: number; journals: number; rollouts: number };
}

/** Plays the batch with the real worker, and reads the processes' usage after each thousand ended rollouts. */
export async function measureSize(
  stack: Stack,
  { say, ...options }: SizeOptions & { say: (line: string) => void },
): Promise<SizeRun> {
  const { rollouts, memory } = options;
  const config = workerConfig(stack, { task_queue: 'size', turn_slice: null, memory });
  const worker = await stack.startWorker({ ...config, task_queue: 'size' });
  const pids = {
    server: stack.ownServer().pid,
    worker: worker.pid,
    simulator: stack.simulator().pid,
  };
  await sleep(IDLE_AFTER_MS);
  const batchId = 'size';
  const directory = path.join(outputsRoot(config), batchId);
  const watched = { rollouts, pids, journals: path.join(directory, 'journals'), say };
  const first = await lookAt(pids, { began: performance.now(), ended: 0 });
  const handle = await startBatch(stack, {
    id: batchId,
    task_queue: 'size',
    limit: rollouts / SIZE.repeats,
    num_repeats: SIZE.repeats,
    max_rollout_turns: SIZE.turns,
    max_in_flight: MAX_IN_FLIGHT,
  });
  const { result, wall_s, moments } = await watch(handle, watched);
  checkPlayed(result, { rollouts, turns: SIZE.turns });
  return {
    ...options,
    wall_s,
    moments: [first, ...moments],
    peak_mb: await perPart(pids, peakMb),
    closing: await closingTimes(stack.server().client),
    histories: await historySizes(stack.server().client),
    files_mb: {
      database: await megabytes(path.join(stack.directory, 'database'), /^temporal\.db/),
      journals: await megabytes(watched.journals, /\.jsonl$/),
      rollouts: await megabytes(directory, /^rollouts\.jsonl$/),
    },
  };
}

/** Until the result arrives or the time is up. */
async function watch(
  handle: WorkflowHandle,
  {
    rollouts,
    pids,
    journals,
    say,
  }: { rollouts: number; pids: PerPart; journals: string; say: (line: string) => void },
): Promise<{ result: BatchResult; wall_s: number; moments: Moment[] }> {
  const began = performance.now();
  const countEnded = createEndedRollouts(journals);
  const moments: Moment[] = [];
  const result = (handle.result() as Promise<BatchResult>).then((value) => ({
    result: value,
    wall_s: (performance.now() - began) / 1000,
  }));
  // The limit at which the loop below gives up.
  result.catch(() => undefined);
  for (let next = Math.min(SIZE.window, rollouts); ;) {
    const closed = await Promise.race([result, sleep(POLL_MS)]);
    const ended = await countEnded();
    if (ended >= next && moments.at(-1)?.ended !== rollouts) {
      const moment = await lookAt(pids, { began, ended });
      moments.push(moment);
      next = Math.min(rollouts, (Math.floor(ended / SIZE.window) + 1) * SIZE.window);
      say(`  ${ended} rollouts have ended after ${moment.wall_s.toFixed(0)} s`);
    }
    if (closed !== undefined) {
      await sleep(SETTLE_MS);
      moments.push(await lookAt(pids, { began, ended }));
      return { ...closed, moments };
    }
    if (performance.now() - began > LIMIT_MS)
      throw new Error(`${ended} rollouts have ended after ${LIMIT_MS / 60_000} minutes, no result`);
  }
}

async function lookAt(
  pids: PerPart,
  { began, ended }: { began: number; ended: number },
): Promise<Moment> {
  return {
    wall_s: (performance.now() - began) / 1000,
    ended,
    cpu_ms: await perPart(pids, cpuMs),
    resident_mb: await perPart(pids, residentMb),
  };
}

async function megabytes(directory: string, names: RegExp): Promise<number> {
  const files = (await readdir(directory)).filter((name) => names.test(name));
  const sizes = await Promise.all(
    files.map(async (name) => (await stat(path.join(directory, name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0) / 2 ** 20;
}
