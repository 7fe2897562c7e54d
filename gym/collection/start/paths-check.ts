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
    const kind = await kindOf(file);
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
    const kind = await kindOf(file);
    if (kind === null || kind === 'a file') continue;
    const which = file === files.main ? '' : ` ('${path.basename(file)}' is written beside it)`;
    throw new Error(`${expected}, got '${output}', ${kind}${which}`);
  }
}

/** null: there is nothing. */
async function kindOf(file: string): Promise<string | null> {
  const found = await stat(file).catch(() => null);
  if (found === null) return null;
  if (found.isFile()) return 'a file';
  if (found.isDirectory()) return 'a folder';
  return found.isFIFO() ? 'a pipe' : 'a device';
}

/** Also under another name of the same file: a link to it, or other capitals if case does not count. */
async function refuseOverwriting(
  { field, given, file }: { field: string; given: string; file: string },
  files: CollectionFiles,
): Promise<void> {
  const identity = await identityOf(file);
  for (const written of Object.values<string>({ ...files })) {
    if (written !== file && (identity === null || identity !== (await identityOf(written)))) {
      continue;
    }
    const what = written === files.main ? 'the results' : `'${path.basename(written)}'`;
    throw new Error(
      `${field}: expected a file that this collection does not write, got '${given}', which is where ${what} of this output_jsonl_fpath would be written: name another output file`,
    );
  }
}

/** null: there is no such file. */
async function identityOf(file: string): Promise<string | null> {
  const found = await stat(file, { bigint: true }).catch(() => null);
  return found === null ? null : `${found.dev}:${found.ino}`;
}

const isFolder = (file: string): Promise<boolean> =>
  stat(file).then(
    (found) => found.isDirectory(),
    () => false,
  );

/** A missing folder is created later, below the nearest existing one. */
export async function mustBeWritable(
  folder: string,
  { field, got, hint = '' }: { field: string; got: string; hint?: string },
): Promise<void> {
  let nearest = folder;
  try {
    while (!(await isThere(nearest))) nearest = path.dirname(nearest);
    if (!(await isFolder(nearest))) throw new Error(`${nearest} is no folder`);
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Error(
      `${field}: expected a path whose folder can be written to, got '${got}' (${describeError(error)})${hint}`,
      { cause: error },
    );
  }
}

/** Something that cannot be inspected is an error of its own. */
async function isThere(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    throw error;
  }
}
