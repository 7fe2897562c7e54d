import type { JsonObject } from '../../json/exact.js';
import { isObject, parseJson } from '../../json/exact.js';
import { textsOf } from '../../../src/platform/lines.js';
import type { CollectionFiles } from '../files.js';
import type { RowKey } from '../../row.js';
import { byKey, rowKeyOf } from '../../row.js';
import { exists } from '../../../src/platform/files.js';
import type { Routed } from '../follow/routing.js';
import { routedLine } from '../follow/routing.js';
import type { CollectionState } from '../state.js';

/**
 * What upstream returns: every result of the main file, and what this collection added elsewhere, sorted by task and
 * rollout.
 */
export async function collectedResults({
  files,
  played,
  state,
}: {
  files: Pick<CollectionFiles, 'main' | 'failures'>;
  played: { unwritten: readonly Routed[] } | null;
  state: Pick<CollectionState, 'failures_from'> | null;
}): Promise<JsonObject[]> {
  const found = await readResults(files.main, 0);
  if (state !== null) found.push(...(await readResults(files.failures, state.failures_from)));
  for (const routed of played?.unwritten ?? []) {
    const result = objectIn(routedLine(routed));
    if (result !== null) found.push({ key: routed.row.key, result });
  }
  return found.toSorted(byKey).map(({ result }) => result);
}

async function readResults(
  file: string,
  from: number,
): Promise<{ key: RowKey; result: JsonObject }[]> {
  const found: { key: RowKey; result: JsonObject }[] = [];
  if (!(await exists(file))) return found;
  for await (const line of textsOf(file, { from })) {
    const result = objectIn(line);
    if (result === null) continue;
    const key = rowKeyOf(result);
    if (key !== null) found.push({ key, result });
  }
  return found;
}

/** null: torn, blank, or not an object. */
function objectIn(line: string): JsonObject | null {
  try {
    const value = parseJson(line);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
