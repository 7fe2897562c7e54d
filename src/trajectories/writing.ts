import { randomUUID } from 'node:crypto';
import { Fault } from '../model/faults.js';
import type { Entry, JournalLine } from '../model/journal.js';
import { lineText, parseLine, readLine } from '../model/journal.js';
import { applyLine, emptyTrajectory } from '../model/journal/trajectory.js';
import { preview } from '../model/problems.js';
import { commonS } from '../platform/waits/common-clock.js';
import { EMPTY_FOLD_BYTES, takenBy } from './fold-weight.js';
import type { Fold, FoldCache } from './kept.js';
import { storing } from './storing.js';
import type { Claimant, Journal, TakeFolded } from './trajectory-store.js';

/** Common to all stores: how an attempt folds a journal and writes into it. */

export const emptyFold = (head = ''): Fold => ({
  trajectory: emptyTrajectory(),
  offset: 0,
  head,
  taken_bytes: EMPTY_FOLD_BYTES,
});

/** `take` gets the line if it counts. */
export function foldLine(
  fold: Fold,
  { line, bytes, take }: { line: JournalLine; bytes: number; take?: TakeFolded | undefined },
): void {
  applyLine(fold.trajectory, line);
  fold.taken_bytes += takenBy(line, bytes);
  if (line.writer === fold.trajectory.writer) take?.(line, fold.trajectory);
}

export function newClaim(by: Claimant): { writer: string; text: string } {
  const writer = randomUUID().slice(0, 8);
  const claim: Entry = { kind: 'claim', attempt: 1, reopen: false, ...by };
  return { writer, text: lineText(lineOf(claim, writer)) };
}

function lineOf(entry: Entry, writer: string): JournalLine {
  const { kind, ...rest } = entry;
  return { kind, writer, at: commonS(), ...rest } as JournalLine;
}

/** A journal that is claimed, as its store writes it. */
export interface Claimed {
  id: string;
  writer: string;
  fold: Fold;
  cache: FoldCache;
  key: string;
  /** Returns the bytes of the text. */
  put: (text: string) => number;
  stillOurs: () => void | Promise<void>;
  stored: () => Promise<void>;
  sync: () => Promise<void>;
  close: (is_committed: boolean) => void | Promise<void>;
}

export function claimed({ id, writer, fold, cache, key, put, close, ...own }: Claimed): Journal {
  let isOpen = true;
  const ofJournal = (operation: () => void | Promise<void>): Promise<void> =>
    storing(`journal of ${id}`, () => {
      if (!isOpen) throw new Error('the journal is closed');
      return operation();
    });
  return {
    writer,
    trajectory: fold.trajectory,
    takenBytes: () => fold.taken_bytes,
    append: (entry) =>
      ofJournal(() => {
        const made = lineOf(entry, writer);
        const text = lineText(made);
        const line = asRead(made, text);
        if (line === null) throw unreadable(id, text);
        foldLine(fold, { line, bytes: put(text) });
      }),
    commit: () =>
      ofJournal(async () => {
        await own.sync();
        isOpen = false;
        await close(true);
        cache.put(key, fold);
      }),
    stillOurs: () => ofJournal(own.stillOurs),
    stored: () => ofJournal(own.stored),
    sync: () => ofJournal(own.sync),
    release: async () => {
      if (!isOpen) return;
      isOpen = false;
      await close(false);
    },
  };
}

/**
 * Folded as it will be read: values that JSON cannot hold (NaN) must not exist in memory alone. Lines with foreign
 * content (an environment's, an engine's logprobs) are checked; the rest is this project's own.
 */
function asRead(line: JournalLine, text: string): JournalLine | null {
  switch (line.kind) {
    case 'observation':
      return parseLine(text);
    case 'result':
      // Long, and checked where it was read.
      return line;
    case 'chunk':
      return line.logprobs.every(Number.isFinite) ? line : null;
    default:
      return readLine(text) as JournalLine;
  }
}

const unreadable = (id: string, text: string): Fault =>
  new Fault({
    type: 'StoreFault',
    message: `journal of ${id}: expected a line that reads back, got ${preview(text)}`,
    retryable: false,
  });
