import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Claimant } from '../src/platform/claim.js';
import { claimFile, claimantOf, describeClaimant } from '../src/platform/claim.js';
import type { RunningStack } from './running-stack.js';
import { forgetRunning, stackFolder, whatRuns } from './running-stack.js';
import type { ProcessIdentity } from '../src/platform/process/identity.js';
import { identify, isAlive } from '../src/platform/process/identity.js';

/** Two Temporal servers on one database file would destroy it, so only one local stack at a time has the folder. */
export interface FolderClaim {
  /** Records the Temporal server, so that the next stack can end it if this process cannot. */
  noteServer: (pid: number) => Promise<void>;
  release: () => Promise<void>;
}

/** Claims `folder` for this process. Throws if a living stack has it; ends the Temporal server of a dead one. */
export async function claimFolder(
  folder: string,
  say: (line: string) => void,
): Promise<FolderClaim> {
  // A database with all inputs and results, logs, journals: private to the user.
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const claim = await claimFile(lockIn(folder));
  if (claim.release === null) throw await taken(folder, claim.claimant);
  const note = path.join(folder, 'temporal-server.json');
  try {
    // What an earlier stack said of itself.
    await forgetRunning(folder);
    const left = await readNote(note);
    if (left !== null && (await isAlive(left))) await endServer(left, say);
  } catch (error) {
    await claim.release();
    throw error;
  }
  return {
    noteServer: async (pid) => {
      await writeFile(note, JSON.stringify(await identify(pid)));
    },
    release: async () => {
      await forgetRunning(folder);
      await rm(note, { force: true });
      await claim.release();
    },
  };
}

/** The process whose stack has the folder; null: none. */
export const stackClaimant = (folder: string): Promise<Claimant | null> =>
  claimantOf(lockIn(folder));

/**
 * The stack that runs on this host with this temporal.yaml, or that has written it; undefined: the one of the current
 * folder. On a shared folder another host may have one, whose addresses lead nowhere here.
 */
export async function stackOf(file: string | undefined): Promise<RunningStack | null> {
  const own = path.resolve(file ?? 'temporal.yaml');
  for (const folder of [stackFolder(own), path.dirname(own)]) {
    const running = await whatRuns(folder);
    const isMeant = file === undefined || [running?.config, running?.settings].includes(own);
    if (isMeant && (await stackClaimant(folder))?.host === hostname()) return running;
  }
  return null;
}

const lockIn = (folder: string): string => path.join(folder, 'stack.lock');

const TAKEN = 'ERR_FOLDER_TAKEN';

export const isTaken = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === TAKEN;

async function taken(folder: string, claimant: Claimant): Promise<Error> {
  const running = await whatRuns(folder);
  const text = [
    `A local stack runs already with ${folder} (${describeClaimant(claimant)}).`,
    'End it with Ctrl-C, or with temporal-rollout up --end; or use it.',
    ...(running === null ? ['It starts at this moment.'] : howToUse(running)),
  ].join('\n');
  return Object.assign(new Error(text), { code: TAKEN });
}

export const howToUse = ({ ui_url, viewer_url, lines }: RunningStack): string[] => [
  `Its Web UI is ${ui_url}, and its rollouts are at ${viewer_url}`,
  'These lines let another terminal reach it:',
  ...lines.map((line) => `  ${line}`),
];

/** null if it is incomplete or gone. */
async function readNote(file: string): Promise<ProcessIdentity | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as ProcessIdentity;
  } catch {
    return null;
  }
}

async function endServer(server: ProcessIdentity, say: (line: string) => void): Promise<void> {
  say(
    `Ending the Temporal server that an earlier local stack left running (process ${server.pid})`,
  );
  for (const [name, waitMs] of [
    ['SIGTERM', 5000],
    ['SIGKILL', 2000],
  ] as const) {
    try {
      process.kill(server.pid, name);
    } catch {
      return;
    }
    for (const until = performance.now() + waitMs; performance.now() < until;) {
      if (!(await isAlive(server))) return;
      await sleep(100);
    }
  }
  throw new Error(
    `The Temporal server of an earlier local stack (process ${server.pid}) cannot be ended: kill it, then start again.`,
  );
}
