import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { userCacheFolder } from './user-cache.js';

/** What a program in Python needs. */
export interface PythonNeeds {
  /** Its folder's name in the user's cache. */
  name: string;
  /** As messages call it. */
  for_what: string;
  requirements: string;
  /** What Python can import once they are there. */
  modules: string[];
}

export interface PythonInstall extends PythonNeeds {
  /** The virtual environment; other requirements have another one. */
  folder: string;
  python: string;
  /** Written when the installation is whole. */
  stamp: string;
}

/** Where the packages are, or would be: the set-up puts them there (tools/python-setup.mjs). */
export function pythonInstall(needs: PythonNeeds, env: NodeJS.ProcessEnv): PythonInstall {
  const hash = createHash('sha256').update(readFileSync(needs.requirements)).digest('hex');
  const cache = path.join(userCacheFolder(env), 'durable-rollouts');
  const folder = path.join(cache, needs.name, hash.slice(0, 16));
  return {
    ...needs,
    folder,
    python: path.join(folder, 'bin', 'python'),
    stamp: path.join(folder, '.installed'),
  };
}
