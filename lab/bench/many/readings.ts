import { readdir } from 'node:fs/promises';
import { readJsonLines } from '../../bed/json-lines.js';
import { median } from '../measure.js';
import { cpuMs, residentMb } from '../process-usage.js';

/** Which processes one reading adds up. */
export interface Watched {
  server: number;
  workers: readonly number[];
  simulator: number;
  /** Of `/metrics` of the Temporal server. */
  metrics_port: number;
}

/** Sums over the worker processes. */
export type PerPart = Record<'server' | 'workers' | 'simulator', number>;

/** Everything at one moment. */
export interface Reading {
  at_ms: number;
  cpu_ms: PerPart;
  resident_mb: PerPart;
  open_files: PerPart;
  /** Requests that the server's frontend has had so far, by operation. */
  requests: Record<string, number>;
  /** Of Temporal Cloud, by type. */
  actions: Record<string, number>;
}

export async function readAll(watched: Watched): Promise<Reading> {
  const [cpu_ms, resident_mb, open_files, counted] = await Promise.all([
    perPart(watched, cpuMs),
    perPart(watched, residentMb),
    perPart(watched, openFiles),
    countedBy(watched.metrics_port),
  ]);
  return { at_ms: Date.now(), cpu_ms, resident_mb, open_files, ...counted };
}

async function perPart(
  { server, workers, simulator }: Watched,
  read: (pid: number) => Promise<number>,
): Promise<PerPart> {
  const each = await Promise.all(workers.map(read));
  return {
    server: await read(server),
    workers: each.reduce((sum, one) => sum + one, 0),
    simulator: await read(simulator),
  };
}

const openFiles = async (pid: number): Promise<number> => (await readdir(`/proc/${pid}/fd`)).length;

interface Counted {
  requests: Record<string, number>;
  actions: Record<string, number>;
}

/** Requests that the server's frontend has had so far, by operation. */
export const requestsOf = async (port: number): Promise<Counted['requests']> =>
  (await countedBy(port)).requests;

/** `service_requests` of the frontend: what clients and workers have asked; and `action`, what Temporal Cloud bills. */
async function countedBy(port: number): Promise<Counted> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const sum = (metric: string, label: string): Record<string, number> => {
    const counts: Record<string, number> = {};
    for (const [, labels = '', value] of text.matchAll(
      new RegExp(`^${metric}\\{(.*)\\} (\\S+)$`, 'gm'),
    )) {
      if (!labels.includes('service_name="frontend"') || labels.includes('temporal_system'))
        continue;
      const [, name = ''] = new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(labels) ?? [];
      counts[name] = (counts[name] ?? 0) + Number(value);
    }
    return counts;
  };
  return { requests: sum('service_requests', 'operation'), actions: sum('action', 'action_type') };
}

/** What a worker's main thread said in one second (loop-delay.mjs). */
interface Second {
  at: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  heap_mb: number;
  timers: number;
}

/** The event loop of the slowest worker between two moments. */
export interface Loop {
  /** Medians of the seconds' values. */
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  /** The last ones of all workers together. */
  heap_mb: number;
  timers: number;
}

export async function loopBetween(
  files: readonly string[],
  { from, to }: { from: number; to: number },
): Promise<Loop> {
  const seconds = await Promise.all(
    files.map(async (file) =>
      (await readJsonLines<Second>(file)).filter(({ at }) => at >= from && at <= to),
    ),
  );
  const all = seconds.flat();
  const last = (take: (second: Second) => number): number =>
    seconds.reduce(
      (sum, own) => sum + (own.length === 0 ? 0 : take(own[own.length - 1] as Second)),
      0,
    );
  return {
    p50_ms: median(all.map(({ p50_ms }) => p50_ms)),
    p99_ms: median(all.map(({ p99_ms }) => p99_ms)),
    max_ms: Math.max(0, ...all.map(({ max_ms }) => max_ms)),
    heap_mb: last(({ heap_mb }) => heap_mb),
    timers: last(({ timers }) => timers),
  };
}
