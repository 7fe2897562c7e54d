import { existsSync, readFileSync } from 'node:fs';
import { childrenOf } from '../../src/sandbox/watch/process-tree.js';

/** Processes below this one whose command line contains `text`, from /proc: Linux only. */
export function descendantsWith(root: number, text: string): number[] {
  const found: number[] = [];
  for (let generation = childrenOf(root); generation.length > 0;) {
    found.push(...generation.filter((pid) => commandLine(pid).includes(text)));
    generation = generation.flatMap(childrenOf);
  }
  return found;
}

/** A process may be gone at any moment. */
function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

/** A zombie is gone, where /proc tells. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return !existsSync('/proc/self') || commandLine(pid) !== '';
}
