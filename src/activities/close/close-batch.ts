import type { Activities, FoldGroups } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { closeRows, closeWhole } from './closing.js';
import type { GroupFiles } from '../../model/workflow-safe/groups.js';
import { writeJson } from '../../platform/json/kept.js';
import type { Attempt } from '../attempt.js';
import type { BatchToFold } from './fold-rows.js';
import { batchToFold, foldRows } from './fold-rows.js';

export const createCloseBatch =
  (dependencies: Dependencies): Activities['closeBatch'] =>
  (input) =>
    dependencies.attempt((attempt) => closeWhole(input, { ...dependencies, attempt }));

/** Closes the rows of one slice. */
export const createCloseSlice =
  (dependencies: Dependencies): Activities['closeSlice'] =>
  (input) =>
    dependencies.attempt((attempt) => closeRows(input, { ...dependencies, attempt }));

export const createFoldGroups =
  (dependencies: Dependencies): Activities['foldGroups'] =>
  (input) =>
    dependencies.attempt((attempt) => foldGroups(input, { ...dependencies, attempt }));

/** Writes the rows of some groups, as the closing pass would, into a file that is put once. */
async function foldGroups(
  { from, rows, ...input }: FoldGroups,
  { attempt, store, endOf }: Pick<Dependencies, 'store' | 'endOf'> & { attempt: Attempt },
): Promise<GroupFiles> {
  const batch = await batchToFold(input, { store, endOf });
  const places = { from, to: from + rows.length };
  try {
    const lines = () => linesOf(rows, { ...batch, attempt });
    return await store.outputs(input.batch_id).putGroups(places, lines);
  } catch (error) {
    // The store reports a cancellation during a write as its own fault.
    attempt.signal.throwIfAborted();
    throw error;
  }
}

async function* linesOf(
  rows: readonly number[],
  batch: BatchToFold & { attempt: Attempt },
): AsyncGenerator<string> {
  for await (const folded of foldRows(rows, batch)) yield writeJson(folded.row);
}
