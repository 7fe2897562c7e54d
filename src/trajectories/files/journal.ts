import { randomUUID } from 'node:crypto';
import path from 'node:path';
import type { RolloutRef } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { Fault, takenOver } from '../../model/faults.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../model/journal/trajectory.js';
import type { Disk } from '../../platform/files.js';
import { syncDirectory } from '../../platform/files.js';
import { storing } from '../storing.js';
import type { Fold, FoldCache } from '../fold-cache.js';
import { EMPTY_FOLD_BYTES, takenBy } from '../fold-weight.js';
import type { JournalFile } from './journal-file.js';
import { findJournal, openJournal } from './journal-file.js';
import type { TailOf } from '../journal-end.js';
import type { Claimant, Journal, TakeFolded } from '../trajectory-store.js';
import { claimOf, textOf, write } from '../writing.js';

/**
 * Appends a claim, then reads: this attempt inherits everything before that line. The claim begins with a newline, so a
 * line torn by a killed predecessor ends there and costs only itself.
 */
export async function claimJournal({
  file,
  ref,
  by,
  cache,
  disk,
}: {
  file: string;
  ref: RolloutRef;
  by: Claimant;
  cache: FoldCache;
  disk: Disk;
}): Promise<Journal> {
  const id = rolloutId(ref);
  return await storing(`journal of ${id}`, async () => {
    const journal = await openJournal(file, disk);
    try {
      const writer = randomUUID().slice(0, 8);
      journal.append(`\n${textOf(claimOf(by), writer)}`);
      const cached = cache.take(file);
      const fold = await readOn(journal, { cached });
      if (fold.trajectory.writer !== writer) throw takenOver(id);
      return claimed({ file, id, journal, fold, isNew: cached === null, writer, cache });
    } catch (error) {
      journal.close();
      throw error;
    }
  });
}

/**
 * The current journal; an empty one for a rollout that never started. A reader of its lines gets them from the first.
 */
export async function readJournal(
  file: string,
  { cache, take }: { cache: FoldCache; take: TakeFolded | undefined },
): Promise<Trajectory> {
  const journal = findJournal(file);
  if (journal === null) return emptyTrajectory();
  try {
    const cached = take === undefined ? cache.take(file) : null;
    return (await readOn(journal, { cached, take })).trajectory;
  } finally {
    journal.close();
  }
}

/** Reads the end of a journal with this function; null if there is no journal. */
export async function withTail<T>(
  file: string,
  read: (tailOf: TailOf) => Promise<T>,
): Promise<T | null> {
  const journal = findJournal(file);
  if (journal === null) return null;
  try {
    return await read((bytes) => journal.tail(bytes));
  } finally {
    journal.close();
  }
}

function claimed({
  file,
  id,
  journal,
  fold,
  isNew,
  writer,
  cache,
}: {
  file: string;
  id: string;
  journal: JournalFile;
  fold: Fold;
  /** Once per process: the process that created the file may have died before its name was durable. */
  isNew: boolean;
  writer: string;
  cache: FoldCache;
}): Journal {
  const { trajectory } = fold;
  const ours = ownership({ journal, from: fold.offset, writer, id });
  let { taken_bytes } = fold;
  let isNamed = !isNew;
  const sync = async (): Promise<void> => {
    await journal.sync();
    if (!isNamed) await syncDirectory(path.dirname(file));
    isNamed = true;
    await ours.check();
  };
  return {
    writer,
    trajectory,
    takenBytes: () => taken_bytes,
    append: (entry) =>
      storing(`journal of ${id}`, () => {
        const put = (text: string): number => {
          const bytes = journal.append(text);
          ours.wrote(bytes);
          return bytes;
        };
        taken_bytes += write(entry, { writer, trajectory, id, put });
      }),
    commit: () =>
      storing(`journal of ${id}`, async () => {
        await sync();
        journal.close();
        cache.put(file, { trajectory, offset: ours.size(), head: fold.head, taken_bytes });
      }),
    stillOurs: async () => {
      if (!ours.isAlone()) await storing(`journal of ${id}`, ours.check);
    },
    stored: () => storing(`journal of ${id}`, ours.check),
    sync: () => storing(`journal of ${id}`, sync),
    release: () => {
      journal.close();
      return Promise.resolve();
    },
  };
}

/** Continues from a cached fold if it belongs to this very file; otherwise from the start. */
async function readOn(
  journal: JournalFile,
  { cached, take }: { cached: Fold | null; take?: TakeFolded | undefined },
): Promise<Fold> {
  const size = journal.size();
  const head = journal.head();
  const fold =
    cached !== null && cached.head === head && cached.offset <= size
      ? cached
      : { trajectory: emptyTrajectory(), offset: 0, head, taken_bytes: EMPTY_FOLD_BYTES };
  let { taken_bytes } = fold;
  const offset = await journal.readLines({ from: fold.offset, to: size }, (line, bytes) => {
    applyLine(fold.trajectory, line);
    taken_bytes += takenBy(line, bytes);
    if (line.writer === fold.trajectory.writer) take?.(line, fold.trajectory);
  });
  return { ...fold, offset, taken_bytes };
}

/** What one attempt has written, and whether the journal is still its own. */
function ownership({
  journal,
  from,
  writer,
  id,
}: {
  journal: JournalFile;
  /** Where the attempt's lines begin. */
  from: number;
  writer: string;
  id: string;
}) {
  let size = from;
  let appended = 0;
  /** How many of this attempt's lines stand up to some place. */
  let found = { to: from, lines: 0 };
  let checked: Promise<void> = Promise.resolve();

  /**
   * The file has more than this attempt wrote. An outdated writer's lines are harmless; a claim means that this attempt
   * lost the journal. So does one that comes too late and gets nothing, as in a database, where it takes a row's number:
   * the next attempt finds the same writer's lines. An outdated writer killed in the middle of a line may have damaged
   * the next one.
   */
  const readOn = async (): Promise<void> => {
    const [known, expected] = [size, appended];
    let foreignClaims = 0;
    let { lines } = found;
    const to = await journal.readLines({ from: found.to, to: journal.size() }, (line) => {
      if (line.writer === writer) lines += 1;
      else if (line.kind === 'claim') foreignClaims += 1;
    });
    if (foreignClaims > 0) throw takenOver(id);
    if (lines !== expected) {
      throw new Fault({
        type: 'StoreFault',
        message: `journal of ${id}: expected ${expected} lines of this attempt, found ${lines}; another attempt's torn line spoilt the rest`,
      });
    }
    found = { to, lines };
    // More may have been written meanwhile.
    size += to - known;
  };
  const look = async (): Promise<void> => {
    if (journal.size() === size) found = { to: size, lines: appended };
    else await readOn();
  };
  return {
    size: () => size,
    wrote: (bytes: number): void => {
      size += bytes;
      appended += 1;
    },
    /** Whether nobody else has written since it was last looked at. */
    isAlone: (): boolean => journal.size() === size,
    /** Throws if another attempt has claimed the journal, or if a line of this one is damaged. */
    check: (): Promise<void> => (checked = checked.then(look)),
  };
}
