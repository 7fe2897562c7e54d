import { readFileSync } from 'node:fs';

/**
 * Processor time of this process's main thread in ms: the cost of a computation on a machine with other load, where
 * elapsed time says little. Without the kernel's scheduler statistics, that of the whole process.
 */
export function processorTime_ms(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
}

/** The longest time for which this work kept everything else in the process from running. */
export async function longestHold_ms(during: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = processorTime_ms();
  const look = (): void => {
    const now = processorTime_ms();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 5);
  try {
    await during();
  } finally {
    look();
    clearInterval(timer);
  }
  return longest;
}
