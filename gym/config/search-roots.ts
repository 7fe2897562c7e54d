import { access } from 'node:fs/promises';
import path from 'node:path';

/** Where upstream looks for a file that is named relatively, best first. */
export interface Places {
  cwd: string;
  env: Partial<Record<string, string>>;
}

/**
 * `NEMO_GYM_EXTRA_ROOTS` (separated as PATH is), then the working directory. Upstream goes on with the directory that Gym is
 * installed in, which is the working directory of those who run from a checkout; others name it in `NEMO_GYM_EXTRA_ROOTS`.
 */
export function searchRoots({ cwd, env }: Places): string[] {
  const extra = (env['NEMO_GYM_EXTRA_ROOTS'] ?? '')
    .split(path.delimiter)
    .filter((root) => root !== '');
  return [...new Set([...extra.map((root) => path.resolve(cwd, root)), cwd])];
}

/** The first root that has the file, or the first root's path, so that an error names the user's own place. */
export async function resolveUnderRoots(file: string, places: Places): Promise<string> {
  if (path.isAbsolute(file)) return file;
  const candidates = searchRoots(places).map((root) => path.join(root, file));
  for (const candidate of candidates) if (await exists(candidate)) return candidate;
  return candidates[0] ?? path.resolve(places.cwd, file);
}

/** What to say of a file that is under no root. Upstream also looks where it is installed. */
export const notFound = (file: string, places: Places): string =>
  path.isAbsolute(file)
    ? ''
    : ` Looked in ${searchRoots(places).join(', ')}. Files that come with Gym are found from its checkout, or with its directory as --search-dir DIR or in NEMO_GYM_EXTRA_ROOTS.`;

export const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );
