import { stat } from 'node:fs/promises';
import { replaceFile } from '../src/platform/files.js';

/** Characters that are gathered before they are written. */
const PIECE = 1 << 20;

/** A file that is not visible until it is complete. */
export interface NewFile {
  write(text: string): Promise<void>;
}

/**
 * Replaces `file` by the output of `fill`, completely or, on an error, not at all. Throws if `file` is a device or a
 * folder, because `/dev/null` would become a file.
 */
export async function writeNewFile(
  file: string,
  fill: (out: NewFile) => Promise<void>,
): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (found !== null && !found.isFile())
    throw new Error(`expected the path of a file to write, got '${file}', which is none`);
  await replaceFile(file, {
    content: async (handle) => {
      let pieces: string[] = [];
      let kept = 0;
      const flush = async (): Promise<void> => {
        const text = pieces.join('');
        pieces = [];
        kept = 0;
        await handle.writeFile(text);
      };
      await fill({
        write: async (text) => {
          pieces.push(text);
          kept += text.length;
          if (kept >= PIECE) await flush();
        },
      });
      await flush();
    },
  });
}

/** Writes each text as a line. */
export const writeNewLines = (
  file: string,
  lines: Iterable<string> | AsyncIterable<string>,
): Promise<void> =>
  writeNewFile(file, async (out) => {
    for await (const line of lines) await out.write(`${line}\n`);
  });

/** Each of some items, when it is asked for. */
export function* mapped<In, Out>(items: Iterable<In>, of: (item: In) => Out): Generator<Out> {
  for (const item of items) yield of(item);
}
