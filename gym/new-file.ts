import { open, rename, rm, stat } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';

/** Characters that are gathered before they are written. */
const PIECE = 1 << 20;

/** A file that is there whole or not at all. */
export interface NewFile {
  write(text: string): Promise<void>;
}

/**
 * What `fill` writes is put in place of `file` when it is done; on an error nothing is left of it. What is no file stays
 * where it is: `/dev/null` would be one from then on.
 */
export async function writeNewFile(
  file: string,
  fill: (out: NewFile) => Promise<void>,
): Promise<void> {
  const there = await stat(file).catch(() => null);
  if (there !== null && !there.isFile())
    throw new Error(`expected the path of a file to write, got '${file}', which is none`);
  const temporary = `${file}.${randomUUID()}.tmp`;
  const handle = await open(temporary, 'wx');
  const pieces: string[] = [];
  let held = 0;
  const flush = async (): Promise<void> => {
    await handle.appendFile(pieces.join(''));
    pieces.length = 0;
    held = 0;
  };
  try {
    await fill({
      write: async (text) => {
        pieces.push(text);
        held += text.length;
        if (held >= PIECE) await flush();
      },
    });
    await flush();
    await handle.sync();
    await handle.close();
    await rename(temporary, file);
  } catch (error) {
    await handle.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw error;
  }
}

/** A line each. */
export const writeNewLines = (
  file: string,
  lines: Iterable<string> | AsyncIterable<string>,
): Promise<void> =>
  writeNewFile(file, async (out) => {
    for await (const line of lines) await out.write(`${line}\n`);
  });
