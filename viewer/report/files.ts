import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/** The files of a report, each as large as it may be. They get their names when all are whole. */
export interface ReportFiles {
  /** Into the last file, or into a new one if that would become too large. Returns the file's name. */
  put: (block: string) => Promise<string>;
  /** Ends each file with what stands in all. */
  close: (after: string) => Promise<{ name: string; bytes: number }[]>;
  /** Leaves nothing. */
  abandon: () => Promise<void>;
}

interface Part {
  name: string;
  temporary: string;
  handle: FileHandle;
  bytes: number;
}

/** `room`: for blocks, in a file that begins with `before`. A file has one block at least. */
export function openReport(
  file: string,
  { before, room }: { before: string; room: number },
): ReportFiles {
  const { dir, name, ext } = path.parse(file);
  const mark = randomUUID().slice(0, 8);
  const parts: Part[] = [];
  const begin = async (): Promise<Part> => {
    const own = parts.length === 0 ? `${name}${ext}` : `${name}-${parts.length + 1}${ext}`;
    const temporary = path.join(dir, `${own}.${mark}.tmp`);
    const part = { name: own, temporary, handle: await open(temporary, 'wx'), bytes: 0 };
    parts.push(part);
    await part.handle.writeFile(before);
    return part;
  };
  return {
    put: async (block) => {
      const bytes = Buffer.byteLength(block);
      let part = parts.at(-1);
      if (part === undefined || (part.bytes > 0 && part.bytes + bytes > room)) part = await begin();
      part.bytes += bytes;
      await part.handle.writeFile(block);
      return part.name;
    },
    close: async (after) => {
      if (parts.length === 0) await begin();
      const written: { name: string; bytes: number }[] = [];
      for (const { name, handle } of parts) {
        await handle.writeFile(after);
        written.push({ name, bytes: (await handle.stat()).size });
        await handle.close();
      }
      for (const { name, temporary } of parts) await rename(temporary, path.join(dir, name));
      return written;
    },
    abandon: async () => {
      for (const { handle, temporary } of parts) {
        await handle.close().catch(() => undefined);
        await rm(temporary, { force: true });
      }
    },
  };
}
