import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Finished, Order } from './bare-process.js';
import type { Target } from './target.js';

/** How a loop without durability continues after a fault: with all rollouts, or only with unfinished ones. */
export type Restart = 'all' | 'unfinished';

/** A supervisor's restart delay after a process ended by itself. */
const RESTART_DELAY_MS = 500;

export interface Loop {
  player: Target['player'];
  /** The time when the last rollout had ended, and all rollouts as they count. */
  finished: Promise<{ at: number; played: Finished[] }>;
  end: () => Promise<void>;
}

export interface LoopOptions {
  logFile: string;
  restart: Restart;
  /** How many rollouts its request has. */
  rollouts: number;
  order: Omit<Order, 'rollouts' | 'life' | 'on_error'>;
}

/** Restarts it whenever it ends too early, as a supervisor does. */
export async function startLoop({ logFile, restart, rollouts, order }: LoopOptions): Promise<Loop> {
  const all = Array.from({ length: rollouts }, (_, rollout) => rollout);
  const on_error = restart === 'all' ? 'exit' : 'restart_rollout';
  const done = new Map<number, Finished>();
  const { promise: finished, resolve } = withResolver<Awaited<Loop['finished']>>();
  const log = openSync(logFile, 'a');
  let life = 0;
  let child: ChildProcess;
  let ended = false;
  let restarting: Promise<void> = Promise.resolve();

  const start = async (): Promise<void> => {
    if (restart === 'all') done.clear();
    const born = fork(new URL('./bare-process.js', import.meta.url), {
      stdio: ['ignore', log, log, 'ipc'],
    });
    child = born;
    await once(born, 'message');
    born.on('message', (message: Finished) => {
      if (born !== child) return;
      done.set(message.rollout, message);
      if (done.size < all.length) return;
      ended = true;
      resolve({ at: performance.now(), played: [...done.values()] });
    });
    born.once('exit', (code) => {
      // Otherwise it was killed, or has nothing left to do.
      if (!ended && born === child && code === 1) restarting = sleep(RESTART_DELAY_MS).then(start);
    });
    const left = all.filter((rollout) => !done.has(rollout));
    born.send({ ...order, on_error, life: ++life, rollouts: left } satisfies Order);
  };
  await start();
  return {
    finished,
    player: {
      kill: async (meanwhile) => {
        await restarting;
        await kill(child);
        await meanwhile?.();
        if (!ended) await start();
      },
      pid: () => child.pid ?? 0,
      pause: () => child.kill('SIGSTOP'),
      resume: () => child.kill('SIGCONT'),
    },
    end: async () => {
      ended = true;
      await restarting;
      await kill(child);
    },
  };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

function withResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
