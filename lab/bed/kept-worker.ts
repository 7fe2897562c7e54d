import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../src/platform/errors.js';
import type { WorkerOptions, WorkerProcess } from './worker.js';
import { startWorkerProcess } from './worker.js';

/** A worker that is started again whenever it ends, as a supervisor does. */
export interface KeptWorker {
  /** kill -9; then `meanwhile`, while none runs; then another is started, and has started. */
  kill: (meanwhile?: () => Promise<void>) => Promise<void>;
  /** Freezes the one that runs, until `resume`. */
  pause: () => void;
  resume: () => void;
  /** Process id of the running one. */
  pid: () => number;
  /** SIGTERM; then another is started. Seconds that the first took to end. */
  replace: () => Promise<number>;
  /** How often it ended without having been killed. */
  ownEnds: () => number;
  stop: () => Promise<void>;
}

const RESTART_DELAY_MS = 500;
const RESTARTS = 10;

export async function keepWorker(options: WorkerOptions & { name: string }): Promise<KeptWorker> {
  let lives = 0;
  let ownEnds = 0;
  let stopped = false;
  /** The life that is being ended on purpose. */
  let killed: WorkerProcess | null = null;
  let restarting: Promise<void> = Promise.resolve();
  let worker: WorkerProcess;

  // Each life has a log of its own: the start of one is not taken for that of another.
  const start = async (): Promise<void> => {
    lives += 1;
    const born = await startWorkerProcess({ ...options, name: `${options.name}-${lives}` });
    worker = born;
    void born.exited.then(() => {
      if (stopped || killed === born) return;
      ownEnds += 1;
      restarting = startAgain();
    });
  };
  const startAgain = async (): Promise<void> => {
    for (let tries = 1; ; tries++) {
      await sleep(RESTART_DELAY_MS);
      try {
        if (!stopped) await start();
        return;
      } catch (error) {
        if (tries === RESTARTS) throw error;
        console.log(`${options.name} did not start again: ${describeError(error)}`);
      }
    }
  };

  const kill: KeptWorker['kill'] = async (meanwhile) => {
    await restarting;
    killed = worker;
    await killed.kill('SIGKILL');
    await meanwhile?.();
    await startAgain();
  };
  let kills: Promise<void> = Promise.resolve();

  await start();
  return {
    kill: (meanwhile) => {
      // Two at once would each start a successor.
      const killing = kills.then(() => kill(meanwhile));
      kills = killing.catch(() => undefined);
      return killing;
    },
    pause: () => {
      worker.pause();
    },
    resume: () => {
      worker.resume();
    },
    pid: () => worker.pid,
    replace: async () => {
      await restarting;
      killed = worker;
      const began = performance.now();
      await killed.kill('SIGTERM');
      const seconds = (performance.now() - began) / 1000;
      await start();
      return seconds;
    },
    ownEnds: () => ownEnds,
    stop: async () => {
      stopped = true;
      await restarting.catch(() => undefined);
      await worker.stop();
    },
  };
}
