import path from 'node:path';
import { exists } from '../../src/platform/files.js';
import {
  findInHub,
  howToDownload,
  hubCache,
  isHubName,
  namesHubCache,
} from '../../src/platform/hub.js';

/** Where upstream looks for a relative file name, best first. */
export interface Places {
  cwd: string;
  env: Partial<Record<string, string>>;
}

/** A variable with the folder of an installation of NeMo Gym. */
export const INSTALLED = 'ROLLOUT_GYM_ROOT';

/** `NEMO_GYM_EXTRA_ROOTS` (separated like PATH), the working directory, and the installation of NeMo Gym, if there is one. */
export function searchRoots({ cwd, env }: Places): string[] {
  const extra = (env['NEMO_GYM_EXTRA_ROOTS'] ?? '').split(path.delimiter);
  const roots = [...extra.filter((root) => root !== ''), cwd, env[INSTALLED] ?? ''];
  return [...new Set(roots.filter((root) => root !== '').map((root) => path.resolve(cwd, root)))];
}

/**
 * The file under the first root that has it, or under the first root, so that an error names the user's own place. A
 * name of the Hub (`hf://…`) is the file in its cache, or stays a name.
 */
export async function resolveUnderRoots(file: string, places: Places): Promise<string> {
  if (isHubName(file)) return (await findInHub(file, hubCaches(places))) ?? file;
  if (path.isAbsolute(file)) return file;
  const candidates = searchRoots(places).map((root) => path.join(root, file));
  for (const candidate of candidates) if (await exists(candidate)) return candidate;
  return candidates[0] ?? path.resolve(places.cwd, file);
}

/** Unless told otherwise, NeMo Gym keeps a cache of the Hub of its own, in the folder where it is installed or runs. */
function hubCaches(places: Places): string[] {
  const own = searchRoots(places).map((root) => path.join(root, 'cache', 'huggingface', 'hub'));
  return [hubCache(places.env), ...(namesHubCache(places.env) ? [] : own)];
}

/** The message for a file that is not there. */
export function notFound(file: string, places: Places): string {
  if (isHubName(file))
    return ` Looked in ${hubCaches(places).join(', ')}. Get it by: ${howToDownload(file, places.env)}`;
  if (path.isAbsolute(file)) return '';
  return ` Looked in ${searchRoots(places).join(', ')}. Files that come with Gym are found from its checkout, where its \`gym\` is on the PATH, or with its directory as --search-dir DIR or in NEMO_GYM_EXTRA_ROOTS.`;
}
