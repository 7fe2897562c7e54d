import type { Stats } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import { describeError } from '../../../src/platform/errors.js';
import type { RolloutCollectionConfig } from '../../config/schemas.js';
import type { Places } from '../../config/search-roots.js';
import { resolveUnderRoots } from '../../config/search-roots.js';
import type { CollectionFiles } from '../files.js';

type PathFields = Pick<
  RolloutCollectionConfig,
  'input_jsonl_fpath' | 'output_jsonl_fpath' | 'prompt_config'
>;

/**
 * Before anything is touched: checks that the files of a collection are writable, and that none of them would replace
 * an input. Throws the problems by field.
 */
export async function checkPaths({
  config,
  files,
  places,
}: {
  config: PathFields;
  files: CollectionFiles;
  places: Places;
}): Promise<void> {
  const { output_jsonl_fpath: output, input_jsonl_fpath: input, prompt_config } = config;
  const expected = 'output_jsonl_fpath: expected the path of a file to write';
  if (output.trim() === '') throw new Error(`${expected}, got ''`);
  await refuseOthers(files, { expected, output });
  await mustBeWritable(path.dirname(files.main), {
    field: 'output_jsonl_fpath',
    got: output,
  });
  const read = { input_jsonl_fpath: input, prompt_config };
  for (const [field, given] of Object.entries(read)) {
    if (given === null) continue;
    if (given.trim() === '') throw new Error(`${field}: expected the path of a file, got ''`);
    const file = await resolveUnderRoots(given, places);
    const { kind } = await lookAt(file);
    // A pipe (`<(…)` of a shell) is read once, like a file.
    if (kind !== null && kind !== 'a file' && kind !== 'a pipe') {
      throw new Error(`${field}: expected the path of a file, got '${given}', ${kind}`);
    }
    await refuseOverwriting({ field, given, file }, files);
  }
}

/** A fresh start removes these files, and must not remove a device of the machine. */
async function refuseOthers(
  files: CollectionFiles,
  { expected, output }: { expected: string; output: string },
): Promise<void> {
  for (const file of Object.values<string>({ ...files })) {
    const { kind } = await lookAt(file);
    if (kind === null || kind === 'a file') continue;
    const which = file === files.main ? '' : ` ('${path.basename(file)}' is written beside it)`;
    throw new Error(`${expected}, got '${output}', ${kind}${which}`);
  }
}

/** Nulls: there is nothing. `identity`: of the file, whatever its name. */
async function lookAt(file: string): Promise<{ kind: string | null; identity: string | null }> {
  const found = await stat(file, { bigint: true }).catch(() => null);
  if (found === null) return { kind: null, identity: null };
  const identity = `${found.dev}:${found.ino}`;
  if (found.isFile()) return { kind: 'a file', identity };
  if (found.isDirectory()) return { kind: 'a folder', identity };
  return { kind: found.isFIFO() ? 'a pipe' : 'a device', identity };
}

/** Also under another name of the same file: a link to it, or other capitals if case does not count. */
async function refuseOverwriting(
  { field, given, file }: { field: string; given: string; file: string },
  files: CollectionFiles,
): Promise<void> {
  const { identity } = await lookAt(file);
  for (const written of Object.values<string>({ ...files })) {
    const isSame = identity !== null && identity === (await lookAt(written)).identity;
    if (written !== file && !isSame) continue;
    const what = written === files.main ? 'the results' : `'${path.basename(written)}'`;
    throw new Error(
      `${field}: expected a file that this collection does not write, got '${given}', which is where ${what} of this output_jsonl_fpath would be written: name another output file`,
    );
  }
}

/** A missing folder is created later, below the nearest existing one. */
export async function mustBeWritable(
  folder: string,
  { field, got, hint = '' }: { field: string; got: string; hint?: string },
): Promise<void> {
  try {
    const { place, found } = await nearestOf(folder);
    if (!found.isDirectory()) throw new Error(`${place} is no folder`);
    await access(place, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Error(
      `${field}: expected a path whose folder can be written to, got '${got}' (${describeError(error)})${hint}`,
      { cause: error },
    );
  }
}

/** Something that cannot be inspected is an error of its own. */
async function nearestOf(place: string): Promise<{ place: string; found: Stats }> {
  try {
    return { place, found: await stat(place) };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    return await nearestOf(path.dirname(place));
  }
}
