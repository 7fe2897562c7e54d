import { appendFile, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../src/platform/process/run-command.js';
import type { ChaosFault } from './fault.js';
import { fault } from './fault.js';

/** Faults of a disk, without privileges: no mount, and no attribute that only root may set. */

const BASE = { part: 'store', store: 'file' } as const;
const HELD = { ...BASE, hold_ms: 3000, interrupts: 'streams_while_held' } as const;
const aside = (folder: string): string => `${folder}.aside`;

export const STORE_FAULTS: readonly ChaosFault[] = [
  fault('disk-full', {
    ...HELD,
    apply: async ({ folder, player }) => {
      await limitFileSize(player.pid(), String(await largestSize(folder)));
    },
    lift: ({ player }) => limitFileSize(player.pid(), 'unlimited'),
  }),
  fault('read-only-store', {
    ...HELD,
    apply: async ({ folder }) => {
      await rename(folder, aside(folder));
      await writeFile(folder, '');
    },
    lift: async ({ folder }) => {
      await rm(folder);
      await rename(aside(folder), folder);
    },
  }),
  fault('torn-line', {
    ...BASE,
    apply: ({ folder, player }) => player.kill(() => tearJournals(folder)),
    interrupts: 'open_streams',
    short: 'alone',
  }),
];

/**
 * RLIMIT_FSIZE of a running process. The soft limit may be raised again. A write beyond it is cut short, and the next
 * one fails. Node ignores SIGXFSZ, so the process sees only the error, as on a full disk.
 */
async function limitFileSize(pid: number, bytes: string): Promise<void> {
  const args = ['--pid', String(pid), `--fsize=${bytes}:`];
  const { ok, problem, output } = await runCommand({ command: 'prlimit', args, timeoutMs: 5000 });
  if (!ok) throw new Error(`prlimit ${args.join(' ')}: ${problem} ${output}`);
}

/** Journals soon pass it, one after the other. */
async function largestSize(folder: string): Promise<number> {
  const names = await readdir(folder);
  const sizes = names.map(async (name) => (await stat(path.join(folder, name))).size);
  return Math.max(...(await Promise.all(sizes)));
}

/** The unfinished write of a dying process: the first half of a line. */
async function tearJournals(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = path.join(folder, name);
    const last = (await readFile(file, 'utf8')).trimEnd().split('\n').at(-1) ?? '';
    await appendFile(file, last.slice(0, last.length / 2));
  }
}
