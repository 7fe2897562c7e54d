import { Fault, takenOver } from '../../model/faults.js';
import { parseLine } from '../../model/journal.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { ownTurn } from '../../platform/waits/own-turn.js';
import type { Fold, FoldCache } from '../kept.js';
import type { Journals } from '../store.js';
import type { TakeFolded } from '../trajectory-store.js';
import { claimed, emptyFold, foldLine, newClaim } from '../writing.js';
import type { Commit } from './group-commit.js';
import { createGroupCommit } from './group-commit.js';
import type { JournalTable, StoredRow } from './journal-table.js';

/** How long lines wait for others; a commit does not wait. */
const COMPANY_MS = 25;
/** More claimants than this never meet at one rollout. */
const MOST_CLAIMS = 50;
/** How long lines are folded without a pause. */
const SLICE_MS = 5;

export function createTableJournals(table: JournalTable, cache: FoldCache): Journals {
  const commit = createGroupCommit(table.insert);
  return {
    /**
     * Inserts a claim after the last row that it has read. If another row is there, it reads on and tries again. This
     * attempt inherits everything before the claim.
     */
    claim: async (ref, by) => {
      const id = rolloutId(ref);
      const { writer, text: lines } = newClaim(by);
      let fold = cache.take(id) ?? emptyFold();
      for (let tries = 0; tries < MOST_CLAIMS; tries++) {
        const row = { rollout: id, n: fold.offset, writer, behind: fold.head, lines };
        if (await commit(row)) {
          foldRow(fold, { row });
          if (fold.trajectory.writer !== writer) throw takenOver(`the journal of ${id}`);
          const appender = createAppender({ id, fold, writer, table, commit });
          return claimed({ id, writer, fold, cache, key: id, ...appender });
        }
        fold = await readOn(id, { fold, table });
      }
      throw new Fault({
        type: 'StoreFault',
        message: `journal of ${id}: ${MOST_CLAIMS} others have claimed it meanwhile`,
      });
    },
    read: async (ref, take) => {
      const id = rolloutId(ref);
      // A reader of its lines gets them from the first.
      const cached = take === undefined ? cache.take(id) : null;
      return (await readOn(id, { fold: cached ?? emptyFold(), table, take })).trajectory;
    },
    tail: (ref, bytes) => table.tail(rolloutId(ref), bytes),
    list: async (batchId) =>
      (await table.list(batchId)).map((name) => {
        const [row = 0, repeat = 0] = name.split('-').map(Number);
        return { row, repeat };
      }),
    size: (ref) => table.size(rolloutId(ref)),
    remove: (refs) => table.delete(refs.map(rolloutId)),
  };
}

function foldRow(
  fold: Fold,
  { row, take }: { row: StoredRow; take?: TakeFolded | undefined },
): void {
  const { n, writer, lines } = row;
  for (const text of lines.split('\n')) {
    const line = parseLine(text);
    if (line !== null) foldLine(fold, { line, bytes: Buffer.byteLength(text), take });
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

function createAppender({
  id,
  fold,
  writer,
  table,
  commit,
}: {
  id: string;
  fold: Fold;
  writer: string;
  table: JournalTable;
  commit: Commit;
}) {
  let pending: string[] = [];
  let timer: NodeJS.Timeout | null = null;
  let flushed: Promise<void> = Promise.resolve();
  let lost: Error | null = null;

  const insert = async (): Promise<void> => {
    if (pending.length === 0) return;
    const lines = pending.join('');
    pending = [];
    if (!(await commit({ rollout: id, n: fold.offset, writer, behind: fold.head, lines })))
      throw takenOver(`the journal of ${id}`);
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
  /** Throws the error of earlier lines. */
  const stillOurs = (): void => {
    if (lost !== null) throw lost;
  };
  /** Resolves when everything put is stored and the journal was still this writer's afterwards. */
  const stored = async (): Promise<void> => {
    const before = fold.offset;
    await flush();
    // A stored row shows by itself who owns the journal.
    if (fold.offset > before) return;
    if ((await table.writerOf(id, fold.offset)) !== null) throw takenOver(`the journal of ${id}`);
  };
  return {
    stillOurs,
    stored,
    sync: stored,
    put: (text: string): number => {
      stillOurs();
      pending.push(text);
      timer ??= setTimeout(() => void flush().catch(() => undefined), COMPANY_MS);
      return Buffer.byteLength(text);
    },
    close: async (is_committed: boolean): Promise<void> => {
      if (!is_committed) await stored().catch(() => undefined);
    },
  };
}
