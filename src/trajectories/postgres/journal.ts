import { randomUUID } from 'node:crypto';
import type { RolloutRef } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { Fault, takenOver } from '../../model/faults.js';
import { parseLine } from '../../model/journal.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../model/journal/trajectory.js';
import { ownTurn } from '../../platform/waits/own-turn.js';
import type { Fold, FoldCache } from '../fold-cache.js';
import { EMPTY_FOLD_BYTES, takenBy } from '../fold-weight.js';
import { storing } from '../storing.js';
import type { Claimant, Journal, TakeFolded } from '../trajectory-store.js';
import { claimOf, textOf, write } from '../writing.js';
import type { Commit } from './group-commit.js';
import type { JournalTable, StoredRow } from './journal-table.js';

/** How long lines wait for others; a commit does not wait. */
const COMPANY_MS = 25;
/** More claimants than this never meet at one rollout. */
const MOST_CLAIMS = 50;
/** How long lines are folded without a pause. */
const SLICE_MS = 5;

/** What all journals of a process share. */
export interface Journals {
  table: JournalTable;
  commit: Commit;
  cache: FoldCache;
}

/**
 * Inserts a claim after the last row that it has read. If another row is there, it reads on and tries again. This
 * attempt inherits everything before the claim.
 */
export async function claimJournal(
  { ref, by }: { ref: RolloutRef; by: Claimant },
  journals: Journals,
): Promise<Journal> {
  const id = rolloutId(ref);
  return await storing(`journal of ${id}`, async () => {
    const writer = randomUUID().slice(0, 8);
    const lines = textOf(claimOf(by), writer);
    let fold = journals.cache.take(id) ?? emptyFold();
    for (let tries = 0; tries < MOST_CLAIMS; tries++) {
      const row = { rollout: id, n: fold.offset, writer, behind: fold.head, lines };
      if (await journals.commit(row)) {
        foldRow(fold, { row });
        if (fold.trajectory.writer !== writer) throw takenOver(id);
        return claimed({ id, fold, writer, journals });
      }
      fold = await readOn(id, { fold, table: journals.table });
    }
    throw new Fault({
      type: 'StoreFault',
      message: `journal of ${id}: ${MOST_CLAIMS} others have claimed it meanwhile`,
    });
  });
}

/**
 * The current journal; an empty one for a rollout that never started. A reader of its lines gets them from the first.
 */
export async function readJournal(
  ref: RolloutRef,
  { table, cache, take }: Journals & { take: TakeFolded | undefined },
): Promise<Trajectory> {
  const id = rolloutId(ref);
  const cached = take === undefined ? cache.take(id) : null;
  return (await readOn(id, { fold: cached ?? emptyFold(), table, take })).trajectory;
}

const emptyFold = (): Fold => ({
  trajectory: emptyTrajectory(),
  offset: 0,
  head: '',
  taken_bytes: EMPTY_FOLD_BYTES,
});

function foldRow(
  fold: Fold,
  { row, take }: { row: StoredRow; take?: TakeFolded | undefined },
): void {
  const { n, writer, lines } = row;
  const { trajectory } = fold;
  for (const text of lines.split('\n')) {
    const line = parseLine(text);
    if (line === null) continue;
    applyLine(trajectory, line);
    fold.taken_bytes += takenBy(line, Buffer.byteLength(text));
    if (line.writer === trajectory.writer) take?.(line, trajectory);
  }
  fold.offset = n + 1;
  fold.head = writer;
}

/** Continues after the fold's last row if that still exists; otherwise from the start. */
async function readOn(
  id: string,
  { fold: known, table, take }: { fold: Fold; table: JournalTable; take?: TakeFolded | undefined },
): Promise<Fold> {
  const isThere = known.offset === 0 || (await table.writerOf(id, known.offset - 1)) === known.head;
  const fold = isThere ? known : emptyFold();
  let since = performance.now();
  for (;;) {
    const rows = await table.read(id, fold.offset);
    if (rows.length === 0) return fold;
    for (const row of rows) {
      foldRow(fold, { row, take });
      if (performance.now() - since < SLICE_MS) continue;
      await ownTurn();
      since = performance.now();
    }
  }
}

/** Lines of one writer on their way into the table, in order. */
interface Appender {
  /** Throws the error of earlier lines. */
  put: (text: string) => number;
  /** Throws the same, without putting anything. */
  checkLost: () => void;
  /** Resolves when everything put is stored and the journal was still this writer's afterwards. */
  stored: () => Promise<void>;
}

function createAppender({ id, fold, writer, journals: { table, commit } }: Claimed): Appender {
  let pending: string[] = [];
  let timer: NodeJS.Timeout | null = null;
  let flushed: Promise<void> = Promise.resolve();
  let lost: Error | null = null;

  const insert = async (): Promise<void> => {
    if (pending.length === 0) return;
    const lines = pending.join('');
    pending = [];
    if (!(await commit({ rollout: id, n: fold.offset, writer, behind: fold.head, lines })))
      throw takenOver(id);
    fold.offset += 1;
    fold.head = writer;
  };
  const flush = (): Promise<void> => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    flushed = flushed.then(insert);
    flushed.catch((error: unknown) => (lost ??= error as Error));
    return flushed;
  };
  const checkLost = (): void => {
    if (lost !== null) throw lost;
  };
  return {
    checkLost,
    put: (text) => {
      checkLost();
      pending.push(text);
      timer ??= setTimeout(() => void flush().catch(() => undefined), COMPANY_MS);
      return Buffer.byteLength(text);
    },
    stored: async () => {
      const before = fold.offset;
      await flush();
      // A stored row shows by itself who owns the journal.
      if (fold.offset > before) return;
      if ((await table.writerOf(id, fold.offset)) !== null) throw takenOver(id);
    },
  };
}

interface Claimed {
  id: string;
  fold: Fold;
  writer: string;
  journals: Journals;
}

function claimed({ id, fold, writer, journals }: Claimed): Journal {
  const { trajectory } = fold;
  const appender = createAppender({ id, fold, writer, journals });
  let isOpen = true;
  const ofJournal = <T>(operation: () => T | Promise<T>): Promise<T> =>
    storing(`journal of ${id}`, () => {
      if (!isOpen) throw new Error('the journal is closed');
      return operation();
    });
  return {
    writer,
    trajectory,
    takenBytes: () => fold.taken_bytes,
    append: (entry) =>
      ofJournal(() => {
        fold.taken_bytes += write(entry, { writer, trajectory, id, put: appender.put });
      }),
    commit: () =>
      ofJournal(async () => {
        await appender.stored();
        isOpen = false;
        journals.cache.put(id, fold);
      }),
    stillOurs: () => ofJournal(appender.checkLost),
    stored: () => ofJournal(appender.stored),
    sync: () => ofJournal(appender.stored),
    release: async () => {
      if (!isOpen) return;
      isOpen = false;
      await appender.stored().catch(() => undefined);
    },
  };
}
