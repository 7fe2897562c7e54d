import type { Process } from './process-tree.js';

/**
 * Processor time of a tree, look by look. A process that ends leaves its time to whoever waits for it. Where nobody does
 * (`SIGCHLD` ignored) the kernel forgets it, and it counts here as it was last seen.
 */
export interface ProcessorTime {
  /** Of all that was ever seen in the tree, in milliseconds. */
  spent_ms: number;
  /** Of processes that have ended and that nobody waited for. */
  lost_ms: number;
  /** Of processes that were gone at the last look: who waited for them may have been read before. */
  pending_ms: number;
  processes: ReadonlyMap<string, Timed>;
}

type Timed = Pick<Process, 'own_ms' | 'waited_ms'>;

export const NO_TIME: ProcessorTime = {
  ...{ spent_ms: 0, lost_ms: 0, pending_ms: 0 },
  processes: new Map(),
};

export function countTime(
  before: ProcessorTime,
  now: Pick<Process, 'pid' | 'start' | 'own_ms' | 'waited_ms'>[],
): ProcessorTime {
  const processes = new Map(now.map((one) => [`${one.pid} ${one.start}`, one]));
  let gone_ms = 0;
  for (const [key, { own_ms, waited_ms }] of before.processes) {
    if (!processes.has(key)) gone_ms += own_ms + waited_ms;
  }
  let [shown_ms, waited_ms] = [0, 0];
  for (const [key, one] of processes) {
    shown_ms += one.own_ms + one.waited_ms;
    waited_ms += Math.max(0, one.waited_ms - (before.processes.get(key)?.waited_ms ?? 0));
  }
  const late_ms = Math.min(waited_ms, before.pending_ms);
  const lost_ms = before.lost_ms + before.pending_ms - late_ms;
  const pending_ms = Math.max(0, gone_ms - (waited_ms - late_ms));
  const spent_ms = Math.max(before.spent_ms, shown_ms + lost_ms + pending_ms);
  return { spent_ms, lost_ms, pending_ms, processes };
}
