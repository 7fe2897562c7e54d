import { open } from 'node:fs/promises';
import { describeError } from '../../../platform/errors.js';
import { arrowTexts } from './arrow.js';
import type { CorpusFiles } from './files.js';
import { jsonlTexts } from './jsonl.js';
import { parquetTexts } from './parquet.js';
import { CorpusProblem } from './problem.js';

const READERS = { jsonl: jsonlTexts, arrow: arrowTexts, parquet: parquetTexts };

/** The texts of a corpus, in order. Throws at the first document without one, naming file, line or row, and column. */
export async function* readCorpus(
  { format, files }: CorpusFiles,
  column: string,
): AsyncGenerator<string> {
  for (const file of files) {
    try {
      yield* READERS[format](file, column);
    } catch (error) {
      const at = error instanceof CorpusProblem && error.at !== '' ? ` ${error.at}` : '';
      const problem = (await isPointer(file)) ? UNFETCHED : describeError(error);
      throw new Error(`${file}${at}: ${problem}`, { cause: error });
    }
  }
}

const POINTER = 'version https://git-lfs';
const UNFETCHED = 'expected documents, got a pointer of Git LFS; run `git lfs pull` there';

async function isPointer(file: string): Promise<boolean> {
  const handle = await open(file).catch(() => null);
  if (handle === null) return false;
  try {
    const { buffer } = await handle.read(Buffer.alloc(POINTER.length), 0, POINTER.length, 0);
    return buffer.equals(Buffer.from(POINTER));
  } finally {
    await handle.close();
  }
}
