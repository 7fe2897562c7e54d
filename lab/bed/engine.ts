import { mkdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CutProxy } from './cut-proxy.js';
import { startCutProxy } from './cut-proxy.js';
import type { Freezing } from './freezing.js';
import { freezing } from './freezing.js';
import type { SimulatorProcess, SimulatorProcessOptions } from './simulator.js';
import { startSimulatorProcess } from './simulator.js';

/** A simulator that may be killed and started again, and cut off from the workers. */
export interface Engine extends Freezing {
  /** As records name it: where workers reach it. */
  replica: string;
  directory: string;
  /** Everybody else reaches it at its own address. */
  process: () => SimulatorProcess;
  /** SIGKILL. */
  kill: () => Promise<void>;
  /** On the same port, with its initial weights. */
  start: () => Promise<void>;
  /** Between it and the workers. Throws if the bed has no networks. */
  network: () => Pick<CutProxy, 'close' | 'open'>;
  end: () => Promise<void>;
}

export interface EngineOptions extends Pick<SimulatorProcessOptions, 'settings' | 'logs'> {
  /** Workers reach it through a proxy. */
  has_network?: boolean;
}

export async function startEngine(
  directory: string,
  { has_network = false, ...options }: EngineOptions,
): Promise<Engine> {
  await mkdir(directory, { recursive: true });
  let simulator = await startSimulatorProcess({ directory, port: 0, ...options });
  const { port, url } = simulator;
  const proxy = has_network ? await startCutProxy({ port, isCommit: () => false }) : null;
  return {
    replica: proxy === null ? `${url}/v1` : `http://127.0.0.1:${proxy.port}/v1`,
    directory,
    process: () => simulator,
    ...freezing(() => simulator.pid),
    kill: async () => {
      await simulator.kill();
    },
    start: async () => {
      simulator = await startSimulatorProcess({ directory, port, ...options });
    },
    network: () => {
      if (proxy !== null) return proxy;
      throw new Error('nothing is between this engine and its workers: ask for networks');
    },
    end: async () => {
      await simulator.stop();
      await proxy?.end();
    },
  };
}

const LOOK_EVERY_MS = 100;

export function watchPauses(engines: readonly Engine[]): { stop: () => Promise<number> } {
  const end = new AbortController();
  let longest_s = 0;
  const watch = async (engine: Engine): Promise<void> => {
    let since: number | null = null;
    while (!end.signal.aborted) {
      if (!(await isPaused(engine))) since = null;
      else since ??= performance.now();
      if (since !== null) longest_s = Math.max(longest_s, (performance.now() - since) / 1000);
      await sleep(LOOK_EVERY_MS);
    }
  };
  const watching = Promise.all(engines.map(watch));
  return {
    stop: async () => {
      end.abort();
      await watching;
      return longest_s;
    },
  };
}

/** A missing engine is not paused. */
export async function isPaused(engine: Engine): Promise<boolean> {
  try {
    const response = await fetch(`${engine.process().url}/simulator/engine`);
    return ((await response.json()) as { is_paused: boolean }).is_paused;
  } catch {
    return false;
  }
}
