import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { z } from 'zod';
import type { Exit } from '../../dev/child.js';
import type { EngineStats } from '../../simulator/engine.js';
import type { RequestEntry } from '../../simulator/request-log.js';
import type { FaultSpec, SettingsChange, SimulatorSettings } from '../../simulator/settings.js';
import { startLogged } from './command.js';
import { readJsonLines, textOf } from './json-lines.js';
import { untilStarted } from './started-child.js';
import { PATIENCE_MS, within } from './waiting.js';

export interface SimulatorProcess {
  pid: number;
  port: number;
  /** `http://127.0.0.1:<port>` */
  url: string;
  /** `PUT /simulator/settings`. */
  change: (change: z.input<typeof SettingsChange>) => Promise<void>;
  /** `POST /simulator/faults`. */
  inject: (fault: z.input<typeof FaultSpec>) => Promise<void>;
  /** Removes faults, including those that have not struck yet. */
  clearFaults: () => Promise<void>;
  /** The number of running requests. */
  runningRequests: () => Promise<number>;
  /** SIGKILL, and waits for its end. */
  kill: () => Promise<Exit>;
  stop: () => Promise<void>;
}

export interface SimulatorProcessOptions {
  /** For `simulator.json`, `simulator.log` and `requests.jsonl`, which continue after a restart. */
  directory: string;
  /** 0: any free one. */
  port: number;
  settings: Omit<z.input<typeof SimulatorSettings>, 'log_file'>;
  /** Whether it logs its requests, which costs it time; by default it does. */
  logs?: boolean;
}

/** Starts `temporal-rollout simulator` and waits until it answers. It ends with this process, however that ends. */
export async function startSimulatorProcess({
  directory,
  port,
  settings,
  logs = true,
}: SimulatorProcessOptions): Promise<SimulatorProcess> {
  const file = path.join(directory, 'simulator.json');
  const logFile = path.join(directory, 'simulator.log');
  const linesBefore = (await urlsIn(logFile)).length;
  // JSON is YAML.
  const log_file = logs ? requestLogOf(directory) : null;
  await writeFile(file, JSON.stringify({ ...settings, log_file }));
  const args = ['simulator', '--port', String(port), '--settings', file];
  const child = await startLogged(args, { cwd: directory, logFile });
  const { shown: url, ended } = await untilStarted(child, {
    what: 'the simulator',
    logFile,
    look: async () => (await urlsIn(logFile))[linesBefore],
  });
  return {
    pid: child.pid,
    port: Number(new URL(url).port),
    url,
    change: async (change) => {
      await call(`${url}/simulator/settings`, { method: 'PUT', body: JSON.stringify(change) });
    },
    inject: async (fault) => {
      await call(`${url}/simulator/faults`, { method: 'POST', body: JSON.stringify(fault) });
    },
    clearFaults: async () => {
      await call(`${url}/simulator/faults`, { method: 'DELETE' });
    },
    runningRequests: async () => {
      return (await statsOf(url)).running;
    },
    kill: () => {
      if (ended() === null) process.kill(child.pid, 'SIGKILL');
      return within('the end of it', child.exited);
    },
    stop: () => child.stop(),
  };
}

async function call(url: string, init: RequestInit): Promise<string> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
  const text = await response.text();
  if (response.ok) return text;
  throw new Error(`${url} answered ${response.status}: ${text}`);
}

const urlsIn = async (logFile: string): Promise<string[]> =>
  [...(await textOf(logFile)).matchAll(/ (http:\/\/\S+)\/v1, model /g)].map(([, url = '']) => url);

/** How many requests the simulator at this URL has answered with tokens, probes included. */
export async function answeredBy(url: string): Promise<number> {
  const { finished } = await statsOf(url);
  return finished.stop + finished.length;
}

const statsOf = async (url: string): Promise<EngineStats> =>
  JSON.parse(await call(`${url}/simulator/engine`, {})) as EngineStats;

export const requestLogOf = (directory: string): string => path.join(directory, 'requests.jsonl');

/** The completion requests that arrived, in order, across restarts. */
export async function readArrivals(directory: string): Promise<RequestEntry[]> {
  const entries = await readJsonLines<RequestEntry & { event: string }>(requestLogOf(directory));
  return entries.filter(({ event }) => event === 'arrived');
}

/** How many completions were sent completely. Cheap, because it is called again and again. */
export async function countCompletions(directory: string): Promise<number> {
  return (await textOf(requestLogOf(directory))).split('"outcome":"complete"').length - 1;
}
