import { setTimeout as sleep } from 'node:timers/promises';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import { serveParent } from '../contender-process.js';
import { cpuMs } from '../process-usage.js';
import type { StorePlace } from './database.js';
import { openBenchStore } from './database.js';
import { endEntry, linesOf, startEntry, turnEntries } from './lines.js';

/** A process that writes many rollouts at once, like a worker whose engine and environment take no time. */

export interface WriteOrder {
  batch_id: string;
  lanes: number;
  for_ms: number;
  /** For each rollout. */
  turns: number;
  /** Commits of a rollout besides its claim: one after each turn, or a single one at its end. */
  commits: 'turns' | 'rollout';
  /** Between two turns of a rollout. */
  pause_ms: number;
}

export interface Written {
  rollouts: number;
  commits: number;
  lines: number;
  wall_s: number;
  /** CPU milliseconds of this process. */
  cpu_ms: number;
  /** Duration of a commit, in ms. */
  latency: { median: number; p99: number; max: number };
}

const CLAIMED = { activity: 'playTurns' };

async function write(order: WriteOrder, store: TrajectoryStore): Promise<Written> {
  const { batch_id, lanes, for_ms, turns } = order;
  const began = performance.now();
  const before = await cpuMs(process.pid);
  const latencies: number[] = [];
  const timed = async (commit: Promise<unknown>): Promise<void> => {
    const since = performance.now();
    await commit;
    latencies.push(performance.now() - since);
  };
  let next = 0;
  let rollouts = 0;
  const playOne = async (row: number): Promise<void> => {
    const journal = await store.claim({ batch_id, row, repeat: 0 }, CLAIMED);
    await journal.append(startEntry());
    for (let turn = 0; turn < turns; turn++) {
      for (const entry of turnEntries(turn)) await journal.append(entry);
      if (order.commits === 'turns') await timed(journal.sync());
      if (order.pause_ms > 0) await sleep(order.pause_ms);
    }
    await journal.append(endEntry(turns));
    await timed(journal.commit());
    rollouts += 1;
  };
  const lane = async (): Promise<void> => {
    while (performance.now() - began < for_ms) await playOne(next++);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  const sorted = latencies.sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return {
    rollouts,
    commits: latencies.length + rollouts,
    lines: rollouts * linesOf(turns),
    wall_s: (performance.now() - began) / 1000,
    cpu_ms: (await cpuMs(process.pid)) - before,
    latency: { median: at(0.5), p99: at(0.99), max: at(1) },
  };
}

const opened = openBenchStore(JSON.parse(process.argv[2] ?? '') as StorePlace);
serveParent((order) => write(order as WriteOrder, opened.store), opened.close);
