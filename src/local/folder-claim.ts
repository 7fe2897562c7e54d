import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessIdentity } from './process-identity.js';
import { identify, isAlive } from './process-identity.js';

/** Two Temporal servers on one database file would destroy it: one local stack at a time has the folder. */
export interface FolderClaim {
  /** Remembers the Temporal server, so that the next stack can end it when this process cannot. */
  noteServer: (pid: number) => Promise<void>;
  release: () => Promise<void>;
}

interface ClaimFile {
  owner: ProcessIdentity;
  server: ProcessIdentity | null;
}

/**
 * Claims `folder` for this process. Throws when a living stack has it; ends the Temporal server that a dead one left.
 */
export async function claimFolder(
  folder: string,
  say: (line: string) => void,
): Promise<FolderClaim> {
  // A database with every input and every result, logs, journals: the user's own.
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, 'stack.json');
  const owner = await identify(process.pid);
  let claim: ClaimFile = { owner, server: null };
  // Two rounds: the second when the first found a dead stack's claim.
  for (let round = 0; !(await createExclusively(file, claim)); round++) {
    const other = await readClaim(file);
    if (round > 1 || (other !== null && (await isAlive(other.owner))))
      throw new Error(taken(folder, other));
    if (other?.server && (await isAlive(other.server))) await endServer(other.server, say);
    await rm(file, { force: true });
  }
  const noteServer = async (pid: number): Promise<void> => {
    claim = { owner, server: await identify(pid) };
    await writeFile(file, JSON.stringify(claim));
  };
  const release = async (): Promise<void> => {
    await rm(file, { force: true });
  };
  return { noteServer, release };
}

function taken(folder: string, other: ClaimFile | null): string {
  return [
    `A local stack runs already with ${folder}${other === null ? '' : ` (process ${other.owner.pid})`}.`,
    'End it with Ctrl-C first; or use it: its Web UI and address were printed where it was started.',
  ].join('\n');
}

async function createExclusively(file: string, claim: ClaimFile): Promise<boolean> {
  try {
    await writeFile(file, JSON.stringify(claim), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** null when it is half written or gone. */
async function readClaim(file: string): Promise<ClaimFile | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as ClaimFile;
  } catch {
    return null;
  }
}

async function endServer(server: ProcessIdentity, say: (line: string) => void): Promise<void> {
  say(`Ending the Temporal server that an earlier local stack left behind (process ${server.pid})`);
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
