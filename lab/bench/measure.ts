import { setTimeout as sleep } from 'node:timers/promises';
import type { Contender } from './contenders.js';
import { cpuMs, peakMb } from './process-usage.js';

/** Which processes a contender uses; the bare loop counts as the worker of its contender. */
export type Part = 'server' | 'worker' | 'simulator';
export const PARTS: readonly Part[] = ['server', 'worker', 'simulator'];

/** One contender's run in one round. */
export interface Run {
  contender: Contender['name'];
  rollouts: number;
  turns: number;
  wall_s: number;
  /** CPU milliseconds of each process during the run; 0 for uninvolved ones. */
  cpu_ms: Record<Part, number>;
  /** Since the process started. */
  peak_mb: Record<Part, number>;
}

type Measurable = Pick<Contender, 'name' | 'processes'>;

/** A server and its queues are still busy when the result arrives; that work belongs to the run. */
const SETTLE_MS = 1000;

/** One run, from the start of the batch to its result; CPU until a second later. */
export async function measure(
  contender: Measurable,
  { rollouts, turns: each, play }: { rollouts: number; turns: number; play: () => Promise<number> },
): Promise<Run> {
  const before = await perPart(contender.processes, cpuMs);
  const began = performance.now();
  const turns = await play();
  const wall_s = (performance.now() - began) / 1000;
  const expected = rollouts * each;
  if (turns !== expected) {
    throw new Error(`${contender.name}: expected ${expected} turns, got ${turns}`);
  }
  await sleep(SETTLE_MS);
  const after = await perPart(contender.processes, cpuMs);
  const cpu_ms = {
    server: after.server - before.server,
    worker: after.worker - before.worker,
    simulator: after.simulator - before.simulator,
  };
  const peak_mb = await perPart(contender.processes, peakMb);
  return { contender: contender.name, rollouts, turns, wall_s, cpu_ms, peak_mb };
}

/** Of each part; 0 where there is no process. */
export async function perPart(
  pids: Partial<Record<Part, number>>,
  read: (pid: number) => Promise<number>,
): Promise<Record<Part, number>> {
  const of = (pid: number | undefined): Promise<number> =>
    pid === undefined ? Promise.resolve(0) : read(pid);
  return {
    server: await of(pids.server),
    worker: await of(pids.worker),
    simulator: await of(pids.simulator),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? NaN)) / 2;
}

export const cpuPerTurn = ({ cpu_ms, turns }: Run, parts: readonly Part[]): number =>
  parts.reduce((sum, part) => sum + cpu_ms[part], 0) / turns;
