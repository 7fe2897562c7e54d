import { describeError } from '../../../platform/errors.js';
import { preview } from '../../../model/problems.js';
import { linesOf } from '../../../platform/lines.js';
import { CorpusProblem, expectedColumn } from './problem.js';

/** `column` of every line of a JSONL file that is not empty. */
export async function* jsonlTexts(file: string, column: string): AsyncGenerator<string> {
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
    throw new CorpusProblem({ at, what: `expected JSON: ${describeError(error)}` });
  }
}
