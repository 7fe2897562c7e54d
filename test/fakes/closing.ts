import { readFile } from 'node:fs/promises';
import type { RowRange } from '../../src/model/workflow-safe/slices.js';
import type {
  BatchOutputs,
  PartPosition,
  PartWriter,
} from '../../src/trajectories/trajectory-store.js';

/** A closing pass over rows whose content is their number; every third row is not valid. */

export const rowsOf = ({ first, last }: RowRange): number[] =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

const isValid = (row: number): boolean => row % 3 !== 2;
const textOf = (row: number): string => JSON.stringify({ row, text: 'é'.repeat(row % 5) });
const linesOf = (rows: number[]): string => rows.map((row) => `${textOf(row)}\n`).join('');

export async function writeRow(writer: PartWriter, row: number): Promise<void> {
  const valid = isValid(row);
  await writer.write({ row: textOf(row), summary: JSON.stringify({ row, valid }), valid });
}

/** Continues from a position, as an attempt does from its predecessor's heartbeat. */
export async function closePart(
  outputs: BatchOutputs,
  { part, resume = null }: { part: RowRange; resume?: PartPosition | null },
): Promise<PartWriter> {
  const writer = await outputs.openPart(part, resume);
  for (const row of rowsOf(part).slice(writer.position.written)) await writeRow(writer, row);
  await writer.close();
  return writer;
}

/** The content of the files after these rows were closed, each once and in order. */
export const expectedFiles = (rows: number[]) => ({
  rollouts: linesOf(rows.filter(isValid)),
  failures: linesOf(rows.filter((row) => !isValid(row))),
  summaries: rows.map((row) => JSON.stringify({ row, valid: isValid(row) })),
});

export async function joinedFiles(
  outputs: BatchOutputs,
  parts: RowRange[],
): Promise<ReturnType<typeof expectedFiles>> {
  const summaries = await outputs.join(parts);
  return {
    rollouts: await readFile(outputs.files.rollouts, 'utf8'),
    failures: await readFile(outputs.files.failures, 'utf8'),
    summaries,
  };
}
