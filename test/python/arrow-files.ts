import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { writeJson } from '../../src/platform/json/kept.js';
import { arrowRows } from '../../src/model/results/arrow/rows.js';
import type { Row } from '../../src/model/results/row.js';
import { END, HEAD } from '../../src/trajectories/arrow/batches.js';
import { packing } from '../../src/trajectories/arrow/packing.js';

/** Rows in both forms, each rollout under a number of its own. */
export async function writeBoth(folder: string, given: readonly Row[]): Promise<void> {
  const rows = given.map((row, at) => ({ ...row, rollout_id: `batch/${at}-0`, row: at }));
  await writeFile(
    path.join(folder, 'rollouts.jsonl'),
    rows.map((row) => `${writeJson(row)}\n`).join(''),
  );
  const batches: Buffer[] = [];
  const pack = packing((batch) => Promise.resolve(void batches.push(batch)));
  for (const row of rows) await pack.add(arrowRows(row));
  await pack.flush();
  await writeFile(path.join(folder, 'rollouts.arrow'), Buffer.concat([HEAD, ...batches, END]));
}
