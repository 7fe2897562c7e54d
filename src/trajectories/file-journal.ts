import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import path from 'node:path';
import type { RolloutRef } from '../model/batch-request.js';
import { rolloutId } from '../model/batch-request.js';
import { Fault } from '../model/faults.js';
import type { Entry, JournalLine } from '../model/journal.js';
import { parseLine } from '../model/journal.js';
import type { Trajectory } from '../model/trajectory.js';
import { applyLine, emptyTrajectory } from '../model/trajectory.js';
import { isMissing, makeDirectory, storing, syncDirectory } from './disk.js';
import type { Fold, FoldCache } from './fold-cache.js';
import type { Journal } from './trajectory-store.js';

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
  by: { activity: string; reopen?: boolean };
  cache: FoldCache;
}): Promise<Journal> {
  const id = rolloutId(ref);
  return await storing(`journal of ${id}`, async () => {
    const handle = await openJournal(file);
    try {
      const writer = randomUUID().slice(0, 8);
      const claim: Entry = { kind: 'claim', activity: by.activity, reopen: by.reopen ?? false };
      await appendText(handle, `\n${textOf(lineOf(claim, writer))}`);
      const fold = await readOn(handle, cache.take(file));
      if (fold.trajectory.writer !== writer) throw takenOver(id);
      return openClaim({ file, id, handle, fold, writer, cache });
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
  writer,
  cache,
}: {
  file: string;
  id: string;
  handle: FileHandle;
  fold: Fold;
  writer: string;
  cache: FoldCache;
}): Journal {
  const { trajectory } = fold;
  const isNew = trajectory.attempts === 1;
  let size = fold.offset;
  return {
    writer,
    trajectory,
    append: (entry) =>
      storing(`journal of ${id}`, async () => {
        const line = lineOf(entry, writer);
        size += await appendText(handle, textOf(line));
        applyLine(trajectory, line);
      }),
    commit: () =>
      storing(`journal of ${id}`, async () => {
        await handle.datasync();
        if (isNew) await syncDirectory(path.dirname(file));
        if ((await handle.stat()).size !== size)
          size = await checkForeign({ handle, from: fold.offset, writer, id });
        await handle.close();
        cache.put(file, { trajectory, offset: size, inode: fold.inode });
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
  const { size, ino } = await handle.stat();
  const fold =
    cached !== null && cached.inode === ino && cached.offset <= size
      ? cached
      : { trajectory: emptyTrajectory(), offset: 0, inode: ino };
  const { lines, end } = await readLines(handle, { from: fold.offset, to: size });
  for (const line of lines) applyLine(fold.trajectory, line);
  return { ...fold, offset: end };
}

/** Whole lines between two offsets; `end` is behind the last newline. */
async function readLines(
  handle: FileHandle,
  { from, to }: { from: number; to: number },
): Promise<{ lines: JournalLine[]; end: number }> {
  const bytes = Buffer.alloc(to - from);
  let length = 0;
  while (length < bytes.length) {
    const { bytesRead } = await handle.read(bytes, length, bytes.length - length, from + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  const end = bytes.subarray(0, length).lastIndexOf(0x0a) + 1;
  const texts = bytes.toString('utf8', 0, end).split('\n');
  return { lines: texts.map(parseLine).filter((line) => line !== null), end: from + end };
}

/** The file holds more than this attempt wrote: a zombie's lines are harmless, a claim means that it lost the journal. */
async function checkForeign({
  handle,
  from,
  writer,
  id,
}: {
  handle: FileHandle;
  from: number;
  writer: string;
  id: string;
}): Promise<number> {
  const { size } = await handle.stat();
  const { lines, end } = await readLines(handle, { from, to: size });
  if (lines.some((line) => line.kind === 'claim' && line.writer !== writer)) throw takenOver(id);
  return end;
}

const takenOver = (id: string): Fault =>
  new Fault({ type: 'StoreFault', message: `another attempt has taken over the journal of ${id}` });
