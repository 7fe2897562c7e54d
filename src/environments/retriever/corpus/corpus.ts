import { open } from 'node:fs/promises';
import { describeError } from '../../../platform/errors.js';
import type { CorpusFiles } from './files.js';
import { jsonlTexts } from './jsonl.js';
import { CorpusProblem } from './problem.js';

/** Those of binary formats bring packages, which are loaded for whoever has such a corpus. */
const READERS = {
  jsonl: () => Promise.resolve(jsonlTexts),
  arrow: async () => (await import('./arrow.js')).arrowTexts,
  parquet: async () => (await import('./parquet.js')).parquetTexts,
};

/** The texts of a corpus, in order. Throws at the first document without one, naming file, line or row, and column. */
export async function* readCorpus(
  { format, files }: CorpusFiles,
  column: string,
): AsyncGenerator<string> {
  for (const file of files) {
    try {
      const texts = await READERS[format]();
      yield* texts(file, column);
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
