import { isOfStatement } from './faults.js';

/** What one writer appended in one commit: row n of its rollout's journal, whose owner is whoever inserts it. */
export interface JournalRow {
  rollout: string;
  n: number;
  writer: string;
  /** Writer of row n - 1: another there, or none, means that this is not the journal which the writer has read. */
  behind: string;
  /** JSON lines, each with its line feed. */
  lines: string;
}

/** True: the row stands, and is durable; false: the journal is another's. */
export type Commit = (row: JournalRow) => Promise<boolean>;

interface Waiting {
  row: JournalRow;
  resolve: (stands: boolean) => void;
  reject: (error: unknown) => void;
}

/** Of one commit; a row alone may be larger. */
const MOST_BYTES = 8_000_000;

/**
 * One commit at a time for all journals of a process, each with at most one row in it, in the order of their names, so
 * that no two processes wait for each other; the next commit takes what came meanwhile.
 */
export function createGroupCommit(
  /** Returns, row by row, whether it stands; throws where none does. */
  insert: (rows: readonly JournalRow[]) => Promise<boolean[]>,
): Commit {
  let waiting: Waiting[] = [];
  let isCommitting = false;

  const send = async (group: readonly Waiting[]): Promise<void> => {
    try {
      const stand = await insert(group.map(({ row }) => row));
      group.forEach(({ resolve }, i) => {
        resolve(stand[i] === true);
      });
    } catch (error) {
      // What one row holds is no fault of the others.
      if (group.length > 1 && isOfStatement(causeOf(error)))
        for (const one of group) await send([one]);
      else for (const { reject } of group) reject(error);
    }
  };
  const run = async (): Promise<void> => {
    isCommitting = true;
    // Whoever appends in this turn of the event loop is in it.
    await Promise.resolve();
    while (waiting.length > 0) {
      const { group, rest } = nextGroup(waiting);
      waiting = rest;
      await send(group);
    }
    isCommitting = false;
  };
  return (row) =>
    new Promise((resolve, reject) => {
      waiting.push({ row, resolve, reject });
      if (!isCommitting) void run();
    });
}

const causeOf = (error: unknown): unknown => (error instanceof Error ? error.cause : undefined);

/** Those that came first, and one of each journal. */
function nextGroup(waiting: readonly Waiting[]): { group: Waiting[]; rest: Waiting[] } {
  const group = new Map<string, Waiting>();
  const rest: Waiting[] = [];
  let bytes = 0;
  for (const one of waiting) {
    const { rollout, lines } = one.row;
    const fits = group.size === 0 || bytes + lines.length <= MOST_BYTES;
    if (fits && !group.has(rollout)) {
      group.set(rollout, one);
      bytes += lines.length;
    } else rest.push(one);
  }
  const inOrder = [...group.values()].sort((a, b) => (a.row.rollout < b.row.rollout ? -1 : 1));
  return { group: inOrder, rest };
}
