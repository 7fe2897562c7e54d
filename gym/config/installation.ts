import { constants } from 'node:fs';
import { access, open, readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { exists } from '../../src/platform/files.js';
import { readText } from '../../src/platform/utf8-text.js';
import type { Places } from './search-roots.js';
import { searchRoots } from './search-roots.js';

/** A NeMo Gym that is installed on this machine. */
export interface Installation {
  /** Its program `gym`. */
  program: string;
  /** The folder of its `benchmarks`, `resources_servers` and others; null: not found. */
  root: string | null;
}

/** Of the path, else of the virtual environment (`.venv`) of a folder that is searched, as a checkout has one. */
export async function findInstallation(places: Places): Promise<Installation | null> {
  const onPath = (places.env['PATH'] ?? '')
    .split(path.delimiter)
    .filter((one) => path.isAbsolute(one));
  const beside = searchRoots(places).map((root) => path.join(root, '.venv', 'bin'));
  for (const folder of [...onPath, ...beside]) {
    const program = path.join(folder, 'gym');
    if (await isGym(program)) return { program, root: await rootOf(program) };
  }
  return null;
}

/** A program that Python's installers make is short, and imports what it runs. Others may have this name, too. */
const SCRIPT_BYTES = 4096;

async function isGym(program: string): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    const file = await open(program);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(SCRIPT_BYTES), 0, SCRIPT_BYTES, 0);
      return buffer.toString('latin1', 0, bytesRead).includes('nemo_gym');
    } finally {
      await file.close();
    }
  } catch {
    return false;
  }
}

/** Where the package is: among those of its Python, or in the checkout that they refer to. */
async function rootOf(program: string): Promise<string | null> {
  const lib = path.join(path.dirname(await realpath(program)), '..', 'lib');
  const pythons = (await namesIn(lib)).filter((name) => name.startsWith('python3'));
  const folders = pythons.flatMap((python) =>
    ['site-packages', 'dist-packages'].map((name) => path.join(lib, python, name)),
  );
  for (const folder of folders) {
    if (await exists(path.join(folder, 'nemo_gym', '__init__.py'))) return folder;
    const info = (await namesIn(folder)).find((name) => /^nemo_gym-.*\.dist-info$/.test(name));
    if (info === undefined) continue;
    const checkout = await checkoutOf(path.join(folder, info, 'direct_url.json'));
    if (checkout !== null) return checkout;
  }
  return null;
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

async function checkoutOf(file: string): Promise<string | null> {
  try {
    const { url } = JSON.parse(await readText(file)) as { url: string };
    return fileURLToPath(url);
  } catch {
    return null;
  }
}
