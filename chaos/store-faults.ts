import { appendFile, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../src/platform/process/run-command.js';
import type { ChaosFault } from './faults.js';

/** What a disk does, with means that need no privileges: no mount, no attribute that root alone may set. */

const HELD_MS = 3000;
const aside = (folder: string): string => `${folder}.aside`;

export const STORE_FAULTS: readonly ChaosFault[] = [
  {
    name: 'disk-full',
    hits: 2,
    apply: async ({ folder, player }) => {
      await limitFileSize(player.pid(), String(await largestSize(folder)));
    },
    hold_ms: HELD_MS,
    lift: ({ player }) => limitFileSize(player.pid(), 'unlimited'),
    interrupts: 'streams_while_held',
    part: 'store',
    store: 'file',
    short: null,
  },
  {
    name: 'read-only-store',
    hits: 2,
    apply: async ({ folder }) => {
      await rename(folder, aside(folder));
      await writeFile(folder, '');
    },
    hold_ms: HELD_MS,
    lift: async ({ folder }) => {
      await rm(folder);
      await rename(aside(folder), folder);
    },
    interrupts: 'streams_while_held',
    part: 'store',
    store: 'file',
    short: null,
  },
  {
    name: 'torn-line',
    hits: 2,
    apply: ({ folder, player }) => player.kill(() => tearJournals(folder)),
    hold_ms: 0,
    lift: () => undefined,
    interrupts: 'open_streams',
    part: 'store',
    store: 'file',
    short: 'alone',
  },
];

/**
 * RLIMIT_FSIZE of a running process, the soft limit, which may be raised again: a write that passes it comes short, the
 * next one fails. Node ignores SIGXFSZ, so that the error is all that the process sees, as on a disk that is full.
 */
async function limitFileSize(pid: number, bytes: string): Promise<void> {
  const args = ['--pid', String(pid), `--fsize=${bytes}:`];
  const { ok, problem, output } = await runCommand({ command: 'prlimit', args, timeoutMs: 5000 });
  if (!ok) throw new Error(`prlimit ${args.join(' ')}: ${problem} ${output}`);
}

/** Of the journals: they soon pass it, one after the other. */
async function largestSize(folder: string): Promise<number> {
  const names = await readdir(folder);
  const sizes = names.map(async (name) => (await stat(path.join(folder, name))).size);
  return Math.max(...(await Promise.all(sizes)));
}

/** A write that a dying process did not finish: the first half of a line, without its end. */
async function tearJournals(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = path.join(folder, name);
    const last = (await readFile(file, 'utf8')).trimEnd().split('\n').at(-1) ?? '';
    await appendFile(file, last.slice(0, last.length / 2));
  }
}
