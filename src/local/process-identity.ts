import { readFile } from 'node:fs/promises';
import { runCommand } from './run-command.js';

/** A process of this machine, as a file can name it. */
export interface ProcessIdentity {
  pid: number;
  /** Its command line: process ids are used again. */
  command: string;
}

/** Is this very process still there? */
export async function isAlive({ pid, command }: ProcessIdentity): Promise<boolean> {
  return command !== '' && (await identify(pid)).command === command;
}

/** The command is empty when there is no such process. */
export async function identify(pid: number): Promise<ProcessIdentity> {
  if (process.platform === 'linux') {
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    return { pid, command: command.replaceAll('\0', ' ').trim() };
  }
  const { ok, output } = await runCommand({
    command: 'ps',
    args: ['-p', String(pid), '-o', 'args='],
    timeoutMs: 5000,
  });
  return { pid, command: ok ? output.trim() : '' };
}
