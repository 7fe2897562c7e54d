import { describeError } from '../../platform/errors.js';
import { preview } from '../../model/problems.js';
import { linesOf } from '../../platform/lines.js';

/**
 * The texts of a JSONL file, in order: `text_column` of every non-empty line. Throws at the first line that is not an
 * object or has no such text, naming the file, the line and, if it has one, its `id`.
 */
export async function* readCorpus(file: string, text_column: string): AsyncGenerator<string> {
  let number = 0;
  try {
    for await (const line of linesOf(file)) {
      ({ number } = line);
      const { text } = line;
      if (text.trim() !== '') yield textOf(text, text_column);
    }
  } catch (error) {
    const where = error instanceof LineProblem ? `${file} line ${number}` : file;
    throw new Error(`${where}: ${describeError(error)}`, { cause: error });
  }
}

/** The problem of the line that was just read. */
class LineProblem extends Error {}

function textOf(line: string, column: string): string {
  const row = parse(line);
  if (typeof row !== 'object' || row === null || Array.isArray(row))
    throw new LineProblem(`expected an object, got ${preview(row)}`);
  const value = (row as Record<string, unknown>)[column];
  if (typeof value === 'string') return value;
  const id = 'id' in row ? ` (id ${preview(row.id)})` : '';
  const got =
    value === undefined ? `a row with ${Object.keys(row).join(', ') || 'nothing'}` : preview(value);
  throw new LineProblem(`${column}${id}: expected a string, got ${got}`);
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new LineProblem(`expected JSON: ${describeError(error)}`);
  }
}
