import type { Process } from './process-tree.js';

/**
 * Processor time of a tree, look by look. An ended process leaves its time to the parent that waits for it. Without one
 * (`SIGCHLD` ignored) the kernel forgets it. Then it counts as last seen, and as busy from there to the next look.
 */
export interface ProcessorTime {
  /** Time of every process ever seen in the tree, in milliseconds. */
  spent_ms: number;
  /** Time of ended processes that no parent waited for. */
  lost_ms: number;
  /** Time of processes that were gone at the last look: their waiting parent may have been read before. */
  pending_ms: number;
  /** The most that those may have spent unseen. */
  unseen_ms: number;
  /** Waited for and not yet missed: the kernel shows waited time in whole ticks, user and system time apart. */
  credit_ms: number;
  processes: ReadonlyMap<string, Timed>;
}

type Timed = Pick<Process, 'own_ms' | 'waited_ms' | 'is_running'>;

const MAX_CREDIT_MS = 20;
/** Late looks mean a busy machine, on which no process had the whole time between two looks. */
const MAX_UNSEEN_MS = 100;

export const NO_TIME: ProcessorTime = {
  ...{ spent_ms: 0, lost_ms: 0, pending_ms: 0, unseen_ms: 0, credit_ms: MAX_CREDIT_MS },
  processes: new Map(),
};

interface Look {
  processes: (Timed & Pick<Process, 'pid' | 'start'>)[];
  elapsed_ms: number;
}

export function countTime(
  before: ProcessorTime,
  { processes: all, elapsed_ms }: Look,
): ProcessorTime {
  const processes = new Map(all.map((one) => [`${one.pid} ${one.start}`, one]));
  const gone = [...before.processes].filter(([key]) => !processes.has(key)).map(([, one]) => one);
  const gone_ms = sum(gone.map(({ own_ms, waited_ms }) => own_ms + waited_ms));
  const busy = gone.filter(({ is_running }) => is_running).length;
  const shown_ms = sum(all.map(({ own_ms, waited_ms }) => own_ms + waited_ms));
  const waited_ms = sum(
    [...processes].map(([key, one]) =>
      Math.max(0, one.waited_ms - (before.processes.get(key)?.waited_ms ?? 0)),
    ),
  );
  // Waited time first pays for the processes that were gone at the look before.
  const still_missed_ms = before.pending_ms - before.credit_ms - waited_ms;
  const is_lost = before.pending_ms > 0 && still_missed_ms > 0;
  const lost_ms = before.lost_ms + (is_lost ? still_missed_ms + before.unseen_ms : 0);
  const paying_ms = Math.max(0, -still_missed_ms);
  const pending_ms = Math.max(0, gone_ms - paying_ms);
  return {
    spent_ms: Math.max(before.spent_ms, shown_ms + lost_ms + pending_ms),
    ...{ lost_ms, pending_ms, processes },
    unseen_ms: pending_ms > 0 ? busy * Math.min(elapsed_ms, MAX_UNSEEN_MS) : 0,
    credit_ms: Math.min(MAX_CREDIT_MS, Math.max(0, paying_ms - gone_ms)),
  };
}

const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
