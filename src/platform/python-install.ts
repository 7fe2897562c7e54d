import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { userCacheFolder } from './user-cache.js';

/** What a Python program needs. */
export interface PythonNeeds {
  /** Name of its folder in the user's cache. */
  name: string;
  /** Its name in messages. */
  for_what: string;
  requirements: string;
  /** The modules that Python can import once they are installed. */
  modules: string[];
}

export interface PythonInstall extends PythonNeeds {
  /** The virtual environment, which depends on the requirements. */
  folder: string;
  python: string;
  /** Written when the installation is complete. */
  stamp: string;
}

/** Where the packages are, or would be. `ensurePython` (python-setup.ts) installs them. */
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
