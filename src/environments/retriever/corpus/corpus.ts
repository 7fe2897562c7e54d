import { open } from 'node:fs/promises';
import { describeError } from '../../../platform/errors.js';
import type { CorpusFiles } from './files.js';
import { CorpusProblem, expectedColumn } from './problem.js';
import { preview } from '../../../model/problems.js';
import { whyNoJson } from '../../../platform/json/fault-place.js';
import { linesOf } from '../../../platform/lines.js';

/** Readers of binary formats need packages, which are loaded only for such a corpus. */
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

/** `column` of every line of a JSONL file that is not empty. */
async function* jsonlTexts(file: string, column: string): AsyncGenerator<string> {
  for await (const { text, number } of linesOf(file)) {
    if (text.trim() !== '') yield textOf(text, { column, at: `line ${number}` });
  }
}

function textOf(line: string, { column, at }: { column: string; at: string }): string {
  const row = parse(line, at);
  if (typeof row !== 'object' || row === null || Array.isArray(row))
    throw new CorpusProblem({ at, what: `expected an object, got ${preview(row)}` });
  const value = (row as Record<string, unknown>)[column];
  if (typeof value === 'string') return value;
  const id = 'id' in row ? ` (id ${preview(row.id)})` : '';
  if (value === undefined)
    throw new CorpusProblem({ at, what: expectedColumn(`${column}${id}`, Object.keys(row)) });
  throw new CorpusProblem({ at, what: `${column}${id}: expected a string, got ${preview(value)}` });
}

function parse(line: string, at: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new CorpusProblem({ at, what: `expected JSON: ${whyNoJson(line, error)}` });
  }
}
