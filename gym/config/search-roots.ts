import path from 'node:path';
import { exists } from '../../src/platform/files.js';

/** Where upstream looks for a relative file name, best first. */
export interface Places {
  cwd: string;
  env: Partial<Record<string, string>>;
}

/**
 * `NEMO_GYM_EXTRA_ROOTS` (separated like PATH), then the working directory. Upstream also searches Gym's installation,
 * which is the working directory when it runs from a checkout; otherwise name it in `NEMO_GYM_EXTRA_ROOTS`.
 */
export function searchRoots({ cwd, env }: Places): string[] {
  const extra = (env['NEMO_GYM_EXTRA_ROOTS'] ?? '')
    .split(path.delimiter)
    .filter((root) => root !== '');
  return [...new Set([...extra.map((root) => path.resolve(cwd, root)), cwd])];
}

/** The file under the first root that has it, or under the first root, so that an error names the user's own place. */
export async function resolveUnderRoots(file: string, places: Places): Promise<string> {
  if (path.isAbsolute(file)) return file;
  const candidates = searchRoots(places).map((root) => path.join(root, file));
  for (const candidate of candidates) if (await exists(candidate)) return candidate;
  return candidates[0] ?? path.resolve(places.cwd, file);
}

/** The message for a file under no root. Upstream also searches its installation. */
export const notFound = (file: string, places: Places): string =>
  path.isAbsolute(file)
    ? ''
    : ` Looked in ${searchRoots(places).join(', ')}. Files that come with Gym are found from its checkout, or with its directory as --search-dir DIR or in NEMO_GYM_EXTRA_ROOTS.`;
