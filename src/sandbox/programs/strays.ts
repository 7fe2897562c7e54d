import { readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { runCommand } from '../../platform/process/run-command.js';
import { areNeighbours, identify, isAlive, runOf } from '../../platform/process/identity.js';
import { signalTo } from '../watch/process-tree.js';

/**
 * What lives leave behind whose worker or guard was killed. Each life has a folder of its own, whose path is in the
 * environment of all that the life starts: that is how processes are found again. (Linux; elsewhere none are.)
 */

const PREFIX = 'rollout-program-';
export const prefix = (): string => path.join(tmpdir(), PREFIX);

/** Beside what programs see: whose it is. */
const OWNER = 'owner.json';
const Owner = z.object({
  pid: z.int(),
  command: z.string(),
  started: z.string().nullable(),
  run: z.string().nullable(),
});

export async function own(base: string): Promise<void> {
  const identity = await identify(process.pid);
  const owner = { ...identity, run: await runOf(identity) };
  await writeFile(path.join(base, OWNER), JSON.stringify(owner), { mode: 0o600 });
}

/** Those whose worker has died on this machine. */
export async function abandoned(): Promise<string[]> {
  const here = await runOf(await identify(process.pid));
  const names = await readdir(tmpdir()).catch(() => []);
  const found: string[] = [];
  for (const name of names.filter((one) => one.startsWith(PREFIX))) {
    const base = path.join(tmpdir(), name);
    const text = await readFile(path.join(base, OWNER), 'utf8').catch(() => '');
    const owner = ownerIn(text);
    if (owner === null || owner.run === null || here === null) continue;
    if (areNeighbours(owner.run, here) && !(await isAlive(owner))) found.push(base);
  }
  return found;
}

function ownerIn(text: string): z.infer<typeof Owner> | null {
  try {
    return Owner.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

const PASSES = 100;
const PAUSE_MS = 20;

/** Ends all processes of this user with this folder in their environment, or as their working directory. */
export async function endStraysOf(base: string): Promise<void> {
  for (let pass = 0; pass < PASSES; pass++) {
    const found = await processesOf(base);
    if (found.length === 0) return;
    for (const pid of found) signalTo(pid, 'SIGKILL');
    await sleep(PAUSE_MS);
  }
}

async function processesOf(base: string): Promise<number[]> {
  const entries = await readdir('/proc').catch(() => []);
  const pids = entries.filter((name) => /^\d+$/.test(name)).map(Number);
  const found: number[] = [];
  for (const pid of pids) {
    if (pid === process.pid) continue;
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
    if (environment.includes(`=${base}/`) || cwd === base || cwd.startsWith(`${base}/`))
      found.push(pid);
  }
  return found;
}

/** null once it is gone, else why not. A program may have taken its own rights to what it has made. */
export async function removed(base: string): Promise<string | null> {
  for (const isLast of [false, true]) {
    try {
      await rm(base, { recursive: true, force: true, maxRetries: 3 });
      return null;
    } catch (error) {
      if (isLast) return error instanceof Error ? error.message : String(error);
      await runCommand({ command: 'chmod', args: ['-R', 'u+rwX', base], timeoutMs: REMOVE_MS });
    }
  }
  return null;
}
const REMOVE_MS = 60_000;
