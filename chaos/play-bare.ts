import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestLogOf } from '../test/harness/simulator-process.js';
import { within } from '../test/harness/waiting.js';
import type { Finished, Order } from './bare-process.js';
import { followLog } from './log-follower.js';
import type { Play } from './play-durable.js';
import { partsOf } from './play-durable.js';
import type { Cost } from './report.js';
import { streamsOf } from './request-streams.js';
import { strike } from './strike.js';
import type { Target } from './target.js';

/** How a loop without anything durable goes on after a fault: with all rollouts, or with those that had not ended. */
export type Restart = 'all' | 'unfinished';

const FINISHED_WITHIN_MS = 150_000;
/** A supervisor's, of a process that ended by itself. */
const RESTART_DELAY_MS = 500;

/** The same rollouts under the same schedule. Wasted is what the last run of each rollout did not use. */
export async function playBare(
  { stage: { bed }, fault, moments, workload }: Play,
  restart: Restart,
): Promise<Cost> {
  const log = await followLog(requestLogOf(bed.directory));
  const loop = await startLoop({
    logFile: path.join(bed.directory, `restart-${restart}.log`),
    restart,
    order: {
      base_url: `${bed.simulator().url}/v1`,
      workload,
      on_error: restart === 'all' ? 'exit' : 'restart_rollout',
      name: `restart-${restart}-${fault.name}`,
    },
  });
  const began = performance.now();
  try {
    const target = { player: loop.player, ...partsOf(bed), journals: '' };
    await strike({ fault, moments, log, target });
    const what = `the end of the loop that restarts ${restart} rollouts, under ${fault.name}`;
    const { at, useful } = await within({ what, timeout_ms: FINISHED_WITHIN_MS }, loop.finished);
    const streams = streamsOf(await log.read());
    const sent = streams.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
    return { wasted_tokens: sent - useful, time_to_finish_s: (at - began) / 1000 };
  } finally {
    await loop.end();
  }
}

interface Loop {
  player: Target['player'];
  /** When the last rollout had ended, and the tokens of those that count. */
  finished: Promise<{ at: number; useful: number }>;
  end: () => Promise<void>;
}

interface LoopOptions {
  logFile: string;
  restart: Restart;
  order: Omit<Order, 'rows' | 'life'>;
}

/** Started again whenever it ends too early, as a supervisor does. */
async function startLoop({ logFile, restart, order }: LoopOptions): Promise<Loop> {
  const rows = Array.from({ length: order.workload.rollouts }, (_, row) => row);
  const done = new Map<number, number>();
  const { promise: finished, resolve } = withResolver<{ at: number; useful: number }>();
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
    born.on('message', ({ row, tokens }: Finished) => {
      if (born !== child) return;
      done.set(row, tokens);
      if (done.size < rows.length) return;
      ended = true;
      resolve({ at: performance.now(), useful: [...done.values()].reduce((a, b) => a + b, 0) });
    });
    born.once('exit', (code) => {
      // Else it was killed, or has nothing left to do.
      if (!ended && born === child && code === 1) restarting = sleep(RESTART_DELAY_MS).then(start);
    });
    born.send({ ...order, life: ++life, rows: rows.filter((row) => !done.has(row)) });
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
