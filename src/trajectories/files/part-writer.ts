import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { copyFile, open, readdir, rename, rm, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import type { Disk } from '../../platform/files.js';
import { syncDirectory } from '../../platform/files.js';
import type { Kind } from '../part-files.js';
import { startOf, writing } from '../part-files.js';
import type { PartPosition, PartWriter } from '../trajectory-store.js';

type PerKind<T> = Partial<Record<Kind, T>>;

export interface PartFiles {
  kinds: readonly Kind[];
  fileOf: (kind: Kind) => string;
  disk: Disk;
}

/** Writes a part's files under names of this attempt, and renames them once they are whole. */
export async function openPartWriter(
  { kinds, fileOf, disk }: PartFiles,
  resume: PartPosition | null,
): Promise<PartWriter> {
  const attempt = randomUUID().slice(0, 8);
  const name: NameOf = (kind, by) => `${fileOf(kind)}.${by}`;
  const directory = path.dirname(fileOf('rollouts'));
  const hasTaken = resume !== null && (await takeOver(resume, { name, kinds, attempt }));
  await removeOthers(directory, [attempt, resume?.attempt ?? attempt]);
  const handles: PerKind<FileHandle> = {};
  for (const kind of kinds) handles[kind] = await open(name(kind, attempt), 'a', disk.file_mode);
  const files = writing(hasTaken ? { ...resume, attempt } : startOf(attempt, kinds), {
    kinds,
    put: async (kind, { bytes }) => {
      await handles[kind]?.writeFile(bytes);
    },
  });
  const closeAll = async (): Promise<void> => {
    for (const kind of kinds) await handles[kind]?.close().catch(() => undefined);
  };
  return {
    get position() {
      return files.position;
    },
    write: files.write,
    close: async () => {
      await files.flush();
      for (const kind of kinds) await handles[kind]?.sync();
      await closeAll();
      for (const kind of kinds) await rename(name(kind, attempt), fileOf(kind));
      await syncDirectory(directory);
    },
    abandon: closeAll,
  };
}

type NameOf = (kind: Kind, by: string) => string;

/** A predecessor's output counts up to the offsets that its heartbeat reported. */
async function takeOver(
  resume: PartPosition,
  { name, kinds, attempt }: { name: NameOf; kinds: readonly Kind[]; attempt: string },
): Promise<boolean> {
  try {
    for (const kind of kinds) {
      const offset = resume.offsets[kind];
      if (offset === undefined) throw new Error('the predecessor wrote other files');
      await copyFile(name(kind, resume.attempt), name(kind, attempt));
      const { size } = await stat(name(kind, attempt));
      // After a power cut the file may be shorter than the heartbeat said.
      if (size < offset) throw new Error('the predecessor lost what it had written');
      await truncate(name(kind, attempt), offset);
    }
    return true;
  } catch {
    // The predecessor's files are gone, renamed or too short: this attempt starts over with empty files.
    for (const kind of kinds) await rm(name(kind, attempt), { force: true });
    return false;
  }
}

/** Removes files of attempts before the predecessor: repeated failures of a closing pass must not fill the disk. */
async function removeOthers(directory: string, attempts: readonly string[]): Promise<void> {
  for (const name of await readdir(directory)) {
    const [, attempt] = /\.(?:jsonl|batches)\.(.+)$/.exec(name) ?? [];
    if (attempt !== undefined && !attempts.includes(attempt))
      await rm(path.join(directory, name), { force: true });
  }
}
