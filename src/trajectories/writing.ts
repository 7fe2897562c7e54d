import { Fault } from '../model/faults.js';
import type { Entry, JournalLine } from '../model/journal.js';
import { lineText, parseLine, readLine } from '../model/journal.js';
import { preview } from '../model/problems.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import { applyLine } from '../model/journal/trajectory.js';
import { takenBy } from './fold-weight.js';
import type { Claimant } from './trajectory-store.js';
import { commonS } from '../platform/waits/common-clock.js';

/** Common to all stores: what an attempt writes into a journal. */

export const claimOf = (by: Claimant): Entry => ({
  kind: 'claim',
  attempt: 1,
  reopen: false,
  ...by,
});

function lineOf(entry: Entry, writer: string): JournalLine {
  const { kind, ...rest } = entry;
  return { kind, writer, at: commonS(), ...rest } as JournalLine;
}

export const textOf = (entry: Entry, writer: string): string => lineText(lineOf(entry, writer));

/** Writes an entry by `put` and folds it in. Returns the bytes that it adds to the fold in memory. */
export function write(
  entry: Entry,
  {
    writer,
    trajectory,
    id,
    put,
  }: {
    writer: string;
    trajectory: Trajectory;
    /** The rollout's id. */
    id: string;
    /** Returns the bytes of the text. */
    put: (text: string) => number;
  },
): number {
  const made = lineOf(entry, writer);
  const text = lineText(made);
  const line = asRead(made, text);
  if (line === null) throw unreadable(id, text);
  const bytes = put(text);
  applyLine(trajectory, line);
  return takenBy(line, bytes);
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
