import path from 'node:path';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeClaimant } from '../src/platform/claim.js';
import { isTaken, stackClaimant } from './folder-claim.js';
import type { RunningStack } from './running-stack.js';
import { stackFolder, whatRuns } from './running-stack.js';
import type { UpOptions } from './up.js';
import { up } from './up.js';
import { forgetDead, noteUser } from './users.js';

export interface JoinOptions extends Pick<UpOptions, 'config' | 'simulator' | 'engine'> {
  /** The process that the stack is for. */
  user: number;
  /** Whether the stack stays when its users have left. */
  keep: boolean;
}

const LOOK_MS = 200;
const SAY_AFTER_MS = 5000;

/**
 * For a program: resolves at once if a stack runs in the folder, else starts one and resolves when that has ended. What
 * runs is then in `stack.json`. Rejects if the stack that runs has another engine.
 */
export async function join(options: JoinOptions): Promise<number> {
  const { config, engine, user, keep } = options;
  const folder = stackFolder(config);
  if (!keep) await noteUser(folder, user);
  await forgetDead(folder);
  const began = performance.now();
  let isSaid = false;
  for (;;) {
    const claimant = await stackClaimant(folder);
    if (claimant === null) {
      const code = await startUnlessTaken(options);
      if (code !== null) return code;
      continue;
    }
    if (claimant.host !== hostname()) throw ofAnotherHost(folder, describeClaimant(claimant));
    const running = await whatRuns(folder);
    if (running?.pid === claimant.pid) {
      checkEngine(running, { engine, folder });
      if (!keep || (await isKept(folder, running))) return 0;
    }
    if (!isSaid && performance.now() - began > SAY_AFTER_MS) {
      isSaid = true;
      console.log(
        `Waiting for ${describeClaimant(claimant)}, which starts or ends the stack of ${folder}`,
      );
    }
    await sleep(LOOK_MS);
  }
}

/** null: another process was faster. */
async function startUnlessTaken({ keep, ...options }: JoinOptions): Promise<number | null> {
  try {
    return await up({
      ...options,
      exit: false,
      batch: false,
      example: null,
      built_in: false,
      program: { ends_unused: !keep },
    });
  } catch (error) {
    if (isTaken(error)) return null;
    throw error;
  }
}

/** False: it has said meanwhile that it ends. */
async function isKept(folder: string, { pid }: RunningStack): Promise<boolean> {
  await noteUser(folder, 'kept');
  return (await whatRuns(folder))?.pid === pid;
}

function checkEngine(
  running: RunningStack,
  { engine, folder }: { engine: string | null; folder: string },
): void {
  if (engine === null || engine === running.engine) return;
  throw new Error(
    `engine: the stack that runs in ${folder} has ${running.engine ?? 'the simulator'}, got ${engine}; ` +
      'leave engine out to use it, give another folder, or end the stack first (temporal-rollout up --end)',
  );
}

const ofAnotherHost = (folder: string, claimant: string): Error =>
  new Error(
    `The stack of ${folder} belongs to ${claimant}, which cannot be reached from here: give another folder; ` +
      `or, if that host is gone, remove ${path.join(folder, 'stack.lock')}`,
  );

const ENDS_WITHIN_MS = 30_000;

/** Ends the stack that runs in the folder of this temporal.yaml, if there is one. */
export async function endStack(config: string): Promise<number> {
  const folder = stackFolder(config);
  const claimant = await stackClaimant(folder);
  if (claimant === null) {
    console.log(`No stack runs with ${folder}.`);
    return 0;
  }
  if (claimant.host !== hostname()) throw ofAnotherHost(folder, describeClaimant(claimant));
  process.kill(claimant.pid, 'SIGTERM');
  for (const until = performance.now() + ENDS_WITHIN_MS; performance.now() < until;) {
    if ((await stackClaimant(folder))?.token !== claimant.token) {
      console.log(
        `The stack of ${folder} has ended. Its unfinished batches continue when the next one starts.`,
      );
      return 0;
    }
    await sleep(LOOK_MS);
  }
  throw new Error(
    `The stack of ${folder} (${describeClaimant(claimant)}) has not ended within ${ENDS_WITHIN_MS / 1000} s: kill -9 ${claimant.pid}`,
  );
}
