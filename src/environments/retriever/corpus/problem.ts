import { preview } from '../../../model/problems.js';

export class CorpusProblem extends Error {
  readonly at: string;

  constructor({ at, what }: { at: string; what: string }) {
    super(what);
    this.at = at;
  }
}

/** `where`: the column, and which row it is. */
export const expectedColumn = (where: string, names: readonly string[]): string =>
  `${where}: expected a string, got a row with ${names.join(', ') || 'nothing'}`;

export function textIn(value: unknown, { column, row }: { column: string; row: number }): string {
  if (typeof value === 'string') return value;
  const got = value === undefined || value === null ? 'null' : preview(plain(value));
  throw new CorpusProblem({ at: `row ${row}`, what: `${column}: expected a string, got ${got}` });
}

/** No JSON has these numbers. */
const plain = (value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
