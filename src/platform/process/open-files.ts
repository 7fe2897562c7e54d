import { readFileSync } from 'node:fs';

let known: number | null = null;

/** Open files of an idle worker: Node, the SDK, threads, graders, a database's connections. */
export const PROCESS_FILES = 112;

/** Infinity where the system does not say. Node.js raises the soft limit to the hard one when it starts. */
export const mostOpenFiles = (): number => (known ??= limitIn(read('/proc/self/limits')));

export function limitIn(table: string): number {
  const [, soft] = /^Max open files\s+(\d+)\s/m.exec(table) ?? [];
  return soft === undefined ? Infinity : Number(soft);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
