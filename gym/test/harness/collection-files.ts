import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';

/** What a test needs to know of a result row. */
export type ResultRow = Record<string, unknown>;

/** Whole lines, parsed. */
export function readRows(file: string): ResultRow[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as ResultRow);
}

export const nameOf = (row: ResultRow): string =>
  `${String(row['_ng_task_index'])}-${String(row['_ng_rollout_index'])}`;

/** Rows by name, sorted, without their attempts: what two collections of the same rows have in common. */
export function sortedContent(file: string): string[] {
  return readRows(file)
    .map((row) => {
      const kept = Object.entries(row).filter(([key]) => key !== '_ng_attempt_index');
      return `${nameOf(row)} ${JSON.stringify(Object.fromEntries(kept))}`;
    })
    .toSorted();
}

/** An input file of so many rows. */
export async function writeInput(file: string, rows: number): Promise<void> {
  const lines = Array.from({ length: rows }, (_, i) =>
    JSON.stringify({ responses_create_params: { input: `question ${i}` }, answer: i }),
  );
  await writeFile(file, `${lines.join('\n')}\n`);
}
