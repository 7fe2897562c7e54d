import { readFile } from 'node:fs/promises';
import type { ArrowRow } from '../../src/model/results/arrow/columns.js';
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

/** Of a group of four; the ids are as many as its number, and the row is the rest. */
export const sequencesOf = (row: number): ArrowRow[] => [
  {
    ...{ rollout_id: `batch/${row}-0`, row, repeat: 0, sequence: 0, parent: null, fork: 0 },
    ...{ group: Math.floor(row / 4), step: null, total_reward: row / 7, loss_multiplier: 1 },
    ...{ stop_reason: 'terminated', terminated: true, truncated: false, prompt_tokens: 0 },
    ...{ sampled_tokens: row, lag_max: row % 2 === 0 ? null : row, rest: textOf(row) },
    input_ids: Int32Array.from({ length: row }, (_, id) => id),
    loss_mask: new Uint8Array(row).fill(1),
    logprobs: new Float32Array(row).fill(-row),
    versions: new Int32Array(row).fill(row),
  },
];

export async function writeRow(writer: PartWriter, row: number): Promise<void> {
  const valid = isValid(row);
  await writer.write({
    row: textOf(row),
    summary: JSON.stringify({ row, valid }),
    valid,
    sequences: () => sequencesOf(row),
  });
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
