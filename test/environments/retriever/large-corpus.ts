import { createWriteStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { tableFromArrays, tableToIPC, utf8 } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { createRandom } from '../../../simulator/random.js';

/**
 * Made-up documents of 90 words each, whose frequencies follow those of a language (Zipf), and queries of eight such
 * words: the same on every machine.
 */
const VOCABULARY = 50_000;
const WORDS = 90;
const QUERY_WORDS = 8;

function wordsOf(seed: number): (count: number) => string {
  const random = createRandom(seed);
  /** Rank r with a probability of about 1/r. */
  const word = (): string => `w${Math.floor(VOCABULARY ** random())}`;
  return (count) => Array.from({ length: count }, word).join(' ');
}

export function documentsOf(count: number): string[] {
  const words = wordsOf(1);
  return Array.from({ length: count }, () => words(WORDS));
}

export function queriesOf(count: number): string[] {
  const words = wordsOf(2);
  return Array.from({ length: count }, () => words(QUERY_WORDS));
}

const ROWS_EACH = 1000;

/** The same documents in a file of each format, in batches or groups of rows as `datasets` writes them. */
export const WRITERS: Readonly<
  Record<string, (file: string, texts: readonly string[]) => Promise<void>>
> = {
  jsonl: (file, texts) => pipeline(linesOf(texts), createWriteStream(file)),
  arrow: async (file, texts) => {
    const parts: Uint8Array[] = [];
    for (let from = 0; from < texts.length; from += ROWS_EACH) {
      const table = tableFromArrays(
        { text: texts.slice(from, from + ROWS_EACH) },
        { types: { text: utf8() } },
      );
      const bytes = tableToIPC(table, { format: 'stream' });
      if (bytes === null) throw new Error('no stream');
      // Each part is a stream of its own: a schema, a batch, and its end.
      parts.push(bytes.subarray(from === 0 ? 0 : schemaEnd(bytes), bytes.length - END_BYTES));
    }
    await writeFile(file, Buffer.concat(parts));
  },
  parquet: (file, texts) => {
    const columnData = [{ name: 'text', data: [...texts], type: 'STRING' as const }];
    return writeFile(
      file,
      new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize: ROWS_EACH })),
    );
  },
};

function* linesOf(texts: readonly string[]): Generator<string> {
  for (const [id, text] of texts.entries()) yield `${JSON.stringify({ id, text })}\n`;
}

/** Of a stream: an empty message. */
const END_BYTES = 8;

/** Where the first message ends; a schema has no body. */
const schemaEnd = (bytes: Uint8Array): number =>
  8 + new DataView(bytes.buffer, bytes.byteOffset).getInt32(4, true);
