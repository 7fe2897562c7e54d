import type { FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { Fault, THE_STORE } from '../model/faults.js';
import { arrowRows } from '../model/results/arrow/rows.js';
import type { ArrowRow } from '../model/results/arrow/columns.js';
import type { Formats } from '../model/results/arrow/formats.js';
import type { Row } from '../model/results/row.js';
import { ROW_COLUMNS, STREAM_COLUMNS } from '../model/sample.js';
import { IN_SAMPLES } from '../model/workflow-safe/foreign.js';
import { whyNoJson } from '../platform/json/fault-place.js';
import { replaceFile } from '../platform/files.js';
import { type ForeignMembers, readJson } from '../platform/json/kept.js';
import { END, HEAD } from './arrow/batches.js';
import { packing } from './arrow/packing.js';
import { storing } from './storing.js';

/** Foreign data in a row: what only this project writes is plain. */
const IN_ROWS: ForeignMembers = {
  ...IN_SAMPLES,
  ...Object.fromEntries([...ROW_COLUMNS, ...STREAM_COLUMNS].map((name) => [name, null])),
  program_end: { metadata: 'all' },
  agent_result: 'all',
};

/**
 * Writes the lines of rollouts.jsonl into a file of either form, which has all of them or does not exist. `completed`:
 * how many there are, by metrics.json.
 */
export async function exportRows(
  lines: AsyncIterable<string>,
  { file, format, completed }: { file: string; format: Formats[number]; completed: number },
): Promise<void> {
  const content = async (handle: FileHandle): Promise<void> => {
    const write = format === 'arrow' ? writeSequences : writeLines;
    const count = await write(handle, lines);
    if (count === completed) return;
    const message = `${path.basename(file)}: expected ${completed} rows of rollouts.jsonl (counts of metrics.json), got ${count}`;
    throw new Fault({ type: 'StoreFault', message, at: THE_STORE, retryable: false });
  };
  await storing(`writing ${file}`, () => replaceFile(file, { content }));
}

type Write = (handle: FileHandle, lines: Lines) => Promise<number>;
type Lines = Iterable<string> | AsyncIterable<string>;

export const writeLines: Write = async (handle, lines) => {
  let count = 0;
  for await (const line of lines) {
    count += 1;
    await handle.writeFile(`${line}\n`);
  }
  return count;
};

/** Writes the valid rollouts of these lines as an Arrow stream, and returns how many there are. */
export const writeSequences: Write = async (handle, lines) => {
  await handle.writeFile(HEAD);
  const count = await packLines(lines, { put: (batch) => handle.writeFile(batch) });
  await handle.writeFile(END);
  return count;
};

/** Packs the valid rollouts of these lines into record batches, and returns how many there are. */
export async function packLines(
  lines: Lines,
  {
    put,
    take,
  }: {
    put: (batch: Buffer, rows: number) => Promise<void>;
    /** Takes each line first. */
    take?: (line: string) => Promise<void>;
  },
): Promise<number> {
  const pack = packing(put);
  let [count, number] = [0, 0];
  for await (const line of lines) {
    number += 1;
    await take?.(line);
    const rows = sequencesIn(line, number);
    if (rows === null) continue;
    count += 1;
    await pack.add(rows);
  }
  await pack.flush();
  return count;
}

/** The sequences of a line of results; null: it is a failure. */
function sequencesIn(line: string, number: number): readonly ArrowRow[] | null {
  try {
    const row = readJson(line, IN_ROWS) as Row;
    return row.failure === undefined ? arrowRows(row) : null;
  } catch (cause) {
    throw new Error(`line ${number}: expected a row, got another text: ${whyNoJson(line, cause)}`, {
      cause,
    });
  }
}
