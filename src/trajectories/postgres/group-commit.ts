import { isOfStatement } from './faults.js';

/** The lines that one writer appended in one commit: row n of its rollout's journal, which the writer owns. */
export interface JournalRow {
  rollout: string;
  n: number;
  writer: string;
  /** Writer of row n - 1. If that differs or is missing, this is not the journal that the writer has read. */
  behind: string;
  /** JSON lines, each with its line feed. */
  lines: string;
}

/** true: the row is stored and durable. false: the journal belongs to another writer. */
export type Commit = (row: JournalRow) => Promise<boolean>;

interface Waiting {
  row: JournalRow;
  resolve: (is_stored: boolean) => void;
  reject: (error: unknown) => void;
}

/** Size limit of one commit; a single row may be larger. */
const MOST_BYTES = 8_000_000;

/**
 * One commit at a time for all journals of a process. It has at most one row per journal, in the order of their names,
 * so that no two processes wait for each other. The next commit takes what arrived meanwhile.
 */
export function createGroupCommit(
  /** Returns for each row whether it is stored; throws if none is. */
  insert: (rows: readonly JournalRow[]) => Promise<boolean[]>,
): Commit {
  let waiting: Waiting[] = [];
  let isCommitting = false;

  const send = async (group: readonly Waiting[]): Promise<void> => {
    try {
      const stored = await insert(group.map(({ row }) => row));
      group.forEach(({ resolve }, i) => {
        resolve(stored[i] === true);
      });
    } catch (error) {
      // The content of one row must not fail the others.
      if (group.length > 1 && isOfStatement(causeOf(error)))
        for (const one of group) await send([one]);
      else for (const { reject } of group) reject(error);
    }
  };
  const run = async (): Promise<void> => {
    isCommitting = true;
    // Everything appended in this turn of the event loop is included.
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

/** The oldest ones, at most one per journal. */
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
