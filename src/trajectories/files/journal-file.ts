import { constants, fstatSync, ftruncateSync, readSync, statSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { JournalLine } from '../../model/journal.js';
import { parseLine } from '../../model/journal.js';
import { createLineCutter } from '../../platform/lines.js';
import { ownTurn } from '../../platform/waits/own-turn.js';
import { isMissing } from '../../platform/files.js';
import { openFile } from '../../platform/regular-file.js';
import type { Disk } from '../../platform/files.js';
import type { Tail } from '../journal-end.js';
import type { Descriptor } from './open-journals.js';
import { createOpenJournals, mostOpenJournals } from './open-journals.js';
import { mostOpenFiles } from '../../platform/process/open-files.js';

export type JournalFile = ReturnType<typeof journalFile>;

/** `bytes`: size of its text. */
export type TakeLine = (line: JournalLine, bytes: number) => void;

/** Long enough for a claim's kind, writer and time, so no two journals begin with the same bytes. */
const HEAD_BYTES = 64;
/** How much is read at once: more than most journals have. */
const BLOCK_BYTES = 1 << 18;
/** Folded in a millisecond or two. */
const SHORT_BYTES = 1 << 16;
/** How long lines are read without a pause: the process has heartbeats to send and streams to read. */
const SLICE_MS = 5;

const { O_APPEND, O_CREAT, O_RDONLY, O_RDWR } = constants;

/** Creates the file and its directory if they are missing. */
export async function openJournal(file: string, disk: Disk): Promise<JournalFile> {
  const flags = O_RDWR | O_APPEND | O_CREAT;
  try {
    return opened(file, { flags, mode: disk.file_mode });
  } catch (error) {
    if (!isMissing(error)) throw error;
    await disk.makeDirectory(path.dirname(file));
    return opened(file, { flags, mode: disk.file_mode });
  }
}

export function findJournal(file: string): JournalFile | null {
  try {
    return opened(file, { flags: O_RDONLY });
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

const keep = createOpenJournals({ most: mostOpenJournals(mostOpenFiles()) });

function opened(file: string, { flags, mode }: { flags: number; mode?: number }): JournalFile {
  const kind = { what: 'a journal', devices: true };
  const fd = openFile(file, { flags, ...(mode !== undefined && { mode }), ...kind });
  // A file that has gone meanwhile is not created again: what it had would be missing.
  const open = (): number => openFile(file, { flags: flags & ~O_CREAT, ...kind });
  return journalFile(keep(fd, { file, open }));
}

export const journalSize = (file: string): number =>
  statSync(file, { throwIfNoEntry: false })?.size ?? 0;

/**
 * A journal as an open file. Reading and appending are synchronous: the page cache answers within microseconds, and the
 * thread pool would cost ten times as much CPU per call. Only waiting for the disk is asynchronous.
 */
function journalFile({ fd: open, wrote, sync, close }: Descriptor) {
  return {
    size: () => fstatSync(open()).size,
    /** Its first bytes, which contain the first writer's random id. */
    head: () => readBytes(open(), { from: 0, to: HEAD_BYTES }).toString('latin1'),
    tail: (bytes: number): Tail => {
      const size = fstatSync(open()).size;
      const from = Math.max(0, size - bytes);
      return { bytes: readBytes(open(), { from, to: size }), is_whole: from === 0 };
    },
    append: (text: string): number => {
      const bytes = Buffer.from(text);
      // One line is one `write`: the kernel appends it whole, whoever else appends.
      const written = writeSync(open(), bytes);
      wrote();
      if (written === bytes.length) return written;
      // Removes the torn half, so there may be room for a line with the reason. If others append, it costs only itself.
      const torn = fstatSync(open()).size - written;
      const last = readBytes(open(), { from: torn, to: torn + written });
      if (last.equals(bytes.subarray(0, written))) ftruncateSync(open(), torn);
      throw new Error(`wrote ${written} of ${bytes.length} bytes: the disk is full or failing`);
    },
    /**
     * Passes on the whole lines between two offsets, one by one, because together they may be larger than memory. A long
     * journal yields in between. Returns where the last one ends.
     */
    readLines: (range: { from: number; to: number }, take: TakeLine) =>
      readLines(open, { ...range, take }),
    /** Resolves when everything appended would survive a power cut. */
    sync,
    /** It may be called more than once. */
    close,
  };
}

/** Line by line: a journal of several large answers is longer than a string may be. */
async function readLines(
  open: () => number,
  { from, to, take }: { from: number; to: number; take: TakeLine },
): Promise<number> {
  const cutter = createLineCutter();
  let end = from;
  // Most are short, and read at once.
  if (to - from > SHORT_BYTES) await ownTurn();
  let since = performance.now();
  for (let at = from; at < to; at += BLOCK_BYTES) {
    const block = readBytes(open(), { from: at, to: Math.min(to, at + BLOCK_BYTES) });
    for (const bytes of cutter.cut(block)) {
      end += bytes.length + 1;
      const line = parseLine(bytes.toString());
      if (line !== null) take(line, bytes.length);
      if (performance.now() - since < SLICE_MS) continue;
      await ownTurn();
      since = performance.now();
    }
  }
  return end;
}

/** The bytes of this range that the file has. */
function readBytes(fd: number, { from, to }: { from: number; to: number }): Buffer {
  const bytes = Buffer.allocUnsafe(to - from);
  let length = 0;
  while (length < bytes.length) {
    const read = readSync(fd, bytes, length, bytes.length - length, from + length);
    if (read === 0) break;
    length += read;
  }
  return bytes.subarray(0, length);
}
