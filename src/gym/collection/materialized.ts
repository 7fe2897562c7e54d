import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { isObject, numberOf, parseJson } from '../../model/lossless-json.js';
import { AGENT_REF, ATTEMPT_INDEX, ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';
import { linesOf } from '../lines.js';
import type { GymRow } from '../row.js';

/** The rows of `<stem>_materialized_inputs.jsonl`, whoever wrote it; lines that are no rows are left out and told. */
export async function readMaterialized(
  file: string,
): Promise<{ rows: GymRow[]; problems: string[] }> {
  const rows: GymRow[] = [];
  const problems: string[] = [];
  let line = 0;
  for await (const text of linesOf(file)) {
    line += 1;
    const row = rowOf(text);
    if (row === null) problems.push(`${file}: line ${line} is no row`);
    else rows.push(row);
  }
  return { rows, problems };
}

function rowOf(text: string): GymRow | null {
  let row;
  try {
    row = parseJson(text);
  } catch {
    return null;
  }
  if (!isObject(row)) return null;
  const [task, rollout] = [numberOf(row[TASK_INDEX]), numberOf(row[ROLLOUT_INDEX])];
  const ref = row[AGENT_REF];
  const agent = isObject(ref) ? ref['name'] : undefined;
  if (task === null || rollout === null || typeof agent !== 'string') return null;
  return { key: { task, rollout }, agent, attempt_index: numberOf(row[ATTEMPT_INDEX]) ?? 0, row };
}

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
