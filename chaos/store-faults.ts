import { appendFile, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../src/platform/process/run-command.js';
import type { ChaosFault } from './faults.js';
import type { Target } from './target.js';

/** What a disk does, with means that need no privileges: no mount, no attribute that root alone may set. */

const HELD_MS = 3000;
const aside = (journals: string): string => `${journals}.aside`;

export const STORE_FAULTS: readonly ChaosFault[] = [
  {
    name: 'disk-full',
    hits: 2,
    apply: async ({ journals, player }) => {
      await limitFileSize(player.pid(), String(await largestSize(journals)));
    },
    hold_ms: HELD_MS,
    lift: ({ player }) => limitFileSize(player.pid(), 'unlimited'),
    interrupts: 'streams_while_held',
    part: 'store',
    short: null,
  },
  {
    name: 'read-only-store',
    hits: 2,
    apply: async ({ journals }) => {
      await rename(journals, aside(journals));
      await writeFile(journals, '');
    },
    hold_ms: HELD_MS,
    lift: async ({ journals }) => {
      await rm(journals);
      await rename(aside(journals), journals);
    },
    interrupts: 'streams_while_held',
    part: 'store',
    short: null,
  },
  {
    name: 'torn-line',
    hits: 2,
    apply: ({ journals, player }) => player.kill(() => tearJournals(journals)),
    hold_ms: 0,
    lift: () => undefined,
    interrupts: 'open_streams',
    part: 'store',
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

/** Size of the largest journal; the others soon reach it, one after the other. */
async function largestSize(journals: string): Promise<number> {
  const names = await readdir(journals);
  const sizes = names.map(async (name) => (await stat(path.join(journals, name))).size);
  return Math.max(...(await Promise.all(sizes)));
}

/** A write that a dying process did not finish: the first half of a line, without its end. */
async function tearJournals(journals: Target['journals']): Promise<void> {
  for (const name of await readdir(journals)) {
    const file = path.join(journals, name);
    const last = (await readFile(file, 'utf8')).trimEnd().split('\n').at(-1) ?? '';
    await appendFile(file, last.slice(0, last.length / 2));
  }
}
