import { createHash } from 'node:crypto';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { runCommand } from './run-command.js';

/** A process of this machine, as a file can name it. */
export interface ProcessIdentity {
  pid: number;
  /** Its command line, for messages, and for a system that tells no start times. Empty: it has ended. */
  command: string;
  /** Its start time, because process ids are reused. null: unknown. */
  started: string | null;
}

/** Returns whether this very process is still alive. */
export async function isAlive({ pid, command, started }: ProcessIdentity): Promise<boolean> {
  if (command === '') return false;
  const there = await identify(pid);
  // A process that has ended still has a start time until its parent notices.
  if (there.command === '') return false;
  // A process may give itself another title, as trainers do. Its start stays.
  return started === null || there.started === null
    ? there.command === command
    : there.started === started;
}

/** The command is empty if there is no such process. */
export async function identify(pid: number): Promise<ProcessIdentity> {
  if (process.platform === 'linux') {
    const command = await readText(`/proc/${pid}/cmdline`);
    return { pid, command: command.replaceAll('\0', ' ').trim(), started: await startOf(pid) };
  }
  const [command, started] = await Promise.all([ps(pid, 'args='), ps(pid, 'lstart=')]);
  return { pid, command, started: started === '' ? null : started };
}

const readText = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

/** Boot time of the machine, plus ticks since then. */
async function startOf(pid: number): Promise<string | null> {
  const boot = await readText('/proc/sys/kernel/random/boot_id');
  const stat = await readText(`/proc/${pid}/stat`);
  // The name in brackets may contain spaces and brackets. Field 22 is the 20th after it.
  const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return ticks === undefined ? null : `${boot.trim()} ${ticks}`;
}

async function ps(pid: number, field: string): Promise<string> {
  const { ok, output } = await runCommand({
    command: 'ps',
    args: ['-p', String(pid), '-o', field],
    timeoutMs: 5000,
  });
  return ok ? output.trim() : '';
}

/**
 * A name that no other process has had: where numbers of processes mean the same as for this one (a container has its
 * own), and when it began. null: this process cannot see when.
 */
export async function runOf({ started }: Pick<ProcessIdentity, 'started'>): Promise<string | null> {
  return started === null ? null : `${digest(await numbering(), 6)}-${digest(started, 8)}`;
}

/** Whether the processes of two such names can see each other. */
export const areNeighbours = (one: string, other: string): boolean =>
  one.split('-')[0] === other.split('-')[0];

async function numbering(): Promise<string> {
  const boot = await readText('/proc/sys/kernel/random/boot_id');
  const namespace = await readlink('/proc/self/ns/pid').catch(() => '');
  return `${hostname()} ${boot.trim()} ${namespace}`;
}

const digest = (text: string, length: number): string =>
  createHash('sha256').update(text).digest('hex').slice(0, length);
