import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { closeRows, closeWhole } from './closing.js';
import { foldGroups } from './fold-groups.js';

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
