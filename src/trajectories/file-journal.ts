import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import path from 'node:path';
import type { RolloutRef } from '../model/batch-request.js';
import { rolloutId } from '../model/batch-request.js';
import { Fault } from '../model/faults.js';
import type { Entry, JournalLine } from '../model/journal.js';
import { parseLine } from '../model/journal.js';
import { preview } from '../model/problems.js';
import type { Trajectory } from '../model/trajectory.js';
import { applyLine, emptyTrajectory } from '../model/trajectory.js';
import { isMissing, makeDirectory, storing, syncDirectory } from './disk.js';
import type { Fold, FoldCache } from './fold-cache.js';
import type { Claimant, Journal } from './trajectory-store.js';

/** A claim's kind, writer and time: no two journals begin with the same. */
const HEAD_BYTES = 64;

const now = (): number => (performance.timeOrigin + performance.now()) / 1000;

/**
 * Appends a claim, then reads: what stands before that line is what this attempt inherits. The claim begins with a
 * newline, so that a line torn by a killed predecessor ends there and costs only itself.
 */
export async function claimJournal({
  file,
  ref,
  by,
  cache,
}: {
  file: string;
  ref: RolloutRef;
  by: Claimant;
  cache: FoldCache;
}): Promise<Journal> {
  const id = rolloutId(ref);
  return await storing(`journal of ${id}`, async () => {
    const handle = await openJournal(file);
    try {
      const writer = randomUUID().slice(0, 8);
      const claim: Entry = { kind: 'claim', attempt: 1, reopen: false, ...by };
      await appendText(handle, `\n${textOf(lineOf(claim, writer))}`);
      const cached = cache.take(file);
      const fold = await readOn(handle, cached);
      if (fold.trajectory.writer !== writer) throw takenOver(id);
      return openClaim({ file, id, handle, fold, isNew: cached === null, writer, cache });
    } catch (error) {
      await handle.close();
      throw error;
    }
  });
}

/** The journal as it stands; of a rollout that never started, an empty one. */
export async function readJournal(file: string, cache: FoldCache): Promise<Trajectory> {
  let handle: FileHandle;
  try {
    handle = await open(file, 'r');
  } catch (error) {
    if (isMissing(error)) return emptyTrajectory();
    throw error;
  }
  try {
    return (await readOn(handle, cache.take(file))).trajectory;
  } finally {
    await handle.close();
  }
}

function openClaim({
  file,
  id,
  handle,
  fold,
  isNew,
  writer,
  cache,
}: {
  file: string;
  id: string;
  handle: FileHandle;
  fold: Fold;
  /** To this process: whoever created the file may have died before its name was durable. */
  isNew: boolean;
  writer: string;
  cache: FoldCache;
}): Journal {
  const { trajectory } = fold;
  let size = fold.offset;
  let appended = 0;
  return {
    writer,
    trajectory,
    append: (entry) =>
      storing(`journal of ${id}`, async () => {
        const made = lineOf(entry, writer);
        const text = textOf(made);
        const line = asRead(made, text);
        if (line === null) throw unreadable(id, text);
        size += await appendText(handle, text);
        appended += 1;
        applyLine(trajectory, line);
      }),
    commit: () =>
      storing(`journal of ${id}`, async () => {
        await handle.datasync();
        if (isNew) await syncDirectory(path.dirname(file));
        if ((await handle.stat()).size !== size)
          size = await checkForeign({ handle, from: fold.offset, writer, appended, id });
        await handle.close();
        cache.put(file, { trajectory, offset: size, head: fold.head });
      }),
    release: async () => {
      await handle.close().catch(() => undefined);
    },
  };
}

async function openJournal(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'a+');
  } catch (error) {
    if (!isMissing(error)) throw error;
    await makeDirectory(path.dirname(file));
    return await open(file, 'a+');
  }
}

function lineOf(entry: Entry, writer: string): JournalLine {
  const { kind, ...rest } = entry;
  return { kind, writer, at: now(), ...rest } as JournalLine;
}

/**
 * Folded as it will be read: what JSON cannot hold (NaN) must not stand in memory alone. Chunks are most of a
 * journal's bytes and hold only text and numbers, so theirs are looked at instead of being parsed again.
 */
function asRead(line: JournalLine, text: string): JournalLine | null {
  if (line.kind !== 'chunk') return parseLine(text);
  return line.logprobs.every(Number.isFinite) ? line : null;
}

const textOf = (line: JournalLine): string => `${JSON.stringify(line)}\n`;

/** One line is one `write`: the kernel appends it whole, whoever else appends. */
async function appendText(handle: FileHandle, text: string): Promise<number> {
  const bytes = Buffer.from(text);
  const { bytesWritten } = await handle.write(bytes);
  if (bytesWritten !== bytes.length) {
    throw new Error(`wrote ${bytesWritten} of ${bytes.length} bytes: the disk is full or failing`);
  }
  return bytesWritten;
}

/** Goes on from a cached fold, where it is of this very file; else from the start. */
async function readOn(handle: FileHandle, cached: Fold | null): Promise<Fold> {
  const { size } = await handle.stat();
  const head = (await readBytes(handle, { from: 0, to: HEAD_BYTES })).toString('latin1');
  const fold =
    cached !== null && cached.head === head && cached.offset <= size
      ? cached
      : { trajectory: emptyTrajectory(), offset: 0, head };
  const { lines, end } = await readLines(handle, { from: fold.offset, to: size });
  for (const line of lines) applyLine(fold.trajectory, line);
  return { ...fold, offset: end };
}

/** Whole lines between two offsets; `end` is behind the last newline. */
async function readLines(
  handle: FileHandle,
  { from, to }: { from: number; to: number },
): Promise<{ lines: JournalLine[]; end: number }> {
  const bytes = await readBytes(handle, { from, to });
  const end = bytes.lastIndexOf(0x0a) + 1;
  const texts = bytes.toString('utf8', 0, end).split('\n');
  return { lines: texts.map(parseLine).filter((line) => line !== null), end: from + end };
}

/** What the file has of these bytes. */
async function readBytes(
  handle: FileHandle,
  { from, to }: { from: number; to: number },
): Promise<Buffer> {
  const bytes = Buffer.alloc(to - from);
  let length = 0;
  while (length < bytes.length) {
    const { bytesRead } = await handle.read(bytes, length, bytes.length - length, from + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.subarray(0, length);
}

/**
 * The file holds more than this attempt wrote: a zombie's lines are harmless, a claim means that it lost the journal.
 * A zombie killed in the middle of a line may have spoilt the one behind it.
 */
async function checkForeign({
  handle,
  from,
  writer,
  appended,
  id,
}: {
  handle: FileHandle;
  from: number;
  writer: string;
  appended: number;
  id: string;
}): Promise<number> {
  const { size } = await handle.stat();
  const { lines, end } = await readLines(handle, { from, to: size });
  if (lines.some((line) => line.kind === 'claim' && line.writer !== writer)) throw takenOver(id);
  const standing = lines.filter((line) => line.writer === writer).length;
  if (standing !== appended) {
    throw new Fault({
      type: 'StoreFault',
      message: `journal of ${id}: expected ${appended} lines of this attempt, found ${standing}; another attempt's torn line spoilt the rest`,
    });
  }
  return end;
}

const takenOver = (id: string): Fault =>
  new Fault({ type: 'StoreFault', message: `another attempt has taken over the journal of ${id}` });

const unreadable = (id: string, text: string): Fault =>
  new Fault({
    type: 'StoreFault',
    message: `journal of ${id}: expected a line that reads back, got ${preview(text)}`,
    retryable: false,
  });
