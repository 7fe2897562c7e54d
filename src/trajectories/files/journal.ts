import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { Fault, takenOver } from '../../model/faults.js';
import { emptyTrajectory } from '../../model/journal/trajectory.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { Disk } from '../../platform/files.js';
import { ifThere, syncDirectory } from '../../platform/files.js';
import type { Tail } from '../journal-end.js';
import type { Fold, FoldCache } from '../kept.js';
import { directoryOf, journalOf } from '../places.js';
import type { Journals } from '../store.js';
import type { TakeFolded } from '../trajectory-store.js';
import { claimed, emptyFold, foldLine, newClaim } from '../writing.js';
import type { JournalFile } from './journal-file.js';
import { findJournal, journalSize, openJournal } from './journal-file.js';

export function createJournalFiles(
  root: string,
  { disk, cache }: { disk: Disk; cache: FoldCache },
): Journals {
  return {
    /**
     * Appends a claim, then reads: this attempt inherits everything before that line. The claim begins with a newline,
     * so a line torn by a killed predecessor ends there and costs only itself.
     */
    claim: async (ref, by) => {
      const id = rolloutId(ref);
      const file = journalOf(root, ref);
      const journal = await openJournal(file, disk);
      try {
        const { writer, text } = newClaim(by);
        journal.append(`\n${text}`);
        const cached = cache.take(file);
        const fold = await readOn(journal, { cached });
        if (fold.trajectory.writer !== writer) throw takenOver(`the journal of ${id}`);
        return claimed({
          ...{ id, writer, fold, cache, key: file, close: journal.close },
          ...ownership(journal, { fold, writer, id, file, isNew: cached === null }),
        });
      } catch (error) {
        journal.close();
        throw error;
      }
    },
    read: async (ref, take) => {
      const file = journalOf(root, ref);
      // A reader of its lines gets them from the first.
      const cached = take === undefined ? cache.take(file) : null;
      const read = async (journal: JournalFile) =>
        (await readOn(journal, { cached, take })).trajectory;
      return (await withJournal(file, read)) ?? emptyTrajectory();
    },
    tail: async (ref, bytes) =>
      (await withJournal(journalOf(root, ref), (journal) => journal.tail(bytes))) ?? NO_TAIL,
    list: async (batchId) => {
      const folder = path.join(directoryOf(root, batchId), 'journals');
      return ((await ifThere(() => readdir(folder))) ?? []).flatMap((name) => {
        const [, row, repeat] = /^(\d+)-(\d+)\.jsonl$/.exec(name) ?? [];
        return row === undefined ? [] : [{ row: Number(row), repeat: Number(repeat) }];
      });
    },
    size: (ref) => journalSize(journalOf(root, ref)),
    /** One after the other: a stream that forgets old steps is in no hurry. */
    remove: async (refs) => {
      for (const ref of refs) await rm(journalOf(root, ref), { force: true });
    },
  };
}

const NO_TAIL: Tail = { bytes: Buffer.alloc(0), is_whole: true };

async function withJournal<T>(
  file: string,
  read: (journal: JournalFile) => T | Promise<T>,
): Promise<T | null> {
  const journal = findJournal(file);
  if (journal === null) return null;
  try {
    return await read(journal);
  } finally {
    journal.close();
  }
}

/** Continues from a cached fold if it belongs to this very file; otherwise from the start. */
async function readOn(
  journal: JournalFile,
  { cached, take }: { cached: Fold | null; take?: TakeFolded | undefined },
): Promise<Fold> {
  const to = journal.size();
  const head = journal.head();
  const isOfFile = cached !== null && cached.head === head && cached.offset <= to;
  const fold = isOfFile ? cached : emptyFold(head);
  fold.offset = await journal.readLines({ from: fold.offset, to }, (line, bytes) => {
    foldLine(fold, { line, bytes, take });
  });
  return fold;
}

/** What one attempt writes, behind the claim that `fold` ends with, and whether the journal is still its own. */
function ownership(
  journal: JournalFile,
  {
    fold,
    writer,
    id,
    file,
    isNew,
  }: {
    fold: Fold;
    writer: string;
    id: string;
    file: string;
    /** Once per process: the process that created the file may have died before its name was durable. */
    isNew: boolean;
  },
) {
  let appended = 0;
  /** How many of this attempt's lines stand up to some place. */
  let found = { to: fold.offset, lines: 0 };
  let checked: Promise<void> = Promise.resolve();
  let isNamed = !isNew;
  /** Whether nobody else has written since it was last looked at. */
  const isAlone = (): boolean => journal.size() === fold.offset;

  /**
   * The file has more than this attempt wrote. An outdated writer's lines are harmless; a claim means that this attempt
   * lost the journal. So does one that comes too late and gets nothing, as in a database, where it takes a row's number:
   * the next attempt finds the same writer's lines. An outdated writer killed in the middle of a line may have damaged
   * the next one.
   */
  const readOthers = async (): Promise<void> => {
    const [known, expected] = [fold.offset, appended];
    let foreignClaims = 0;
    let { lines } = found;
    const to = await journal.readLines({ from: found.to, to: journal.size() }, (line) => {
      if (line.writer === writer) lines += 1;
      else if (line.kind === 'claim') foreignClaims += 1;
    });
    if (foreignClaims > 0) throw takenOver(`the journal of ${id}`);
    if (lines !== expected) {
      throw new Fault({
        type: 'StoreFault',
        message: `journal of ${id}: expected ${expected} lines of this attempt, found ${lines}; another attempt's torn line spoilt the rest`,
      });
    }
    found = { to, lines };
    // More may have been written meanwhile.
    fold.offset += to - known;
  };
  const look = async (): Promise<void> => {
    if (isAlone()) found = { to: fold.offset, lines: appended };
    else await readOthers();
  };
  /** Throws if another attempt has claimed the journal, or if a line of this one is damaged. */
  const stored = (): Promise<void> => (checked = checked.then(look));
  return {
    put: (text: string): number => {
      const bytes = journal.append(text);
      fold.offset += bytes;
      appended += 1;
      return bytes;
    },
    stored,
    stillOurs: async (): Promise<void> => {
      if (!isAlone()) await stored();
    },
    sync: async (): Promise<void> => {
      await journal.sync();
      if (!isNamed) await syncDirectory(path.dirname(file));
      isNamed = true;
      await stored();
    },
  };
}
