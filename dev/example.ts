import { cp, readdir } from 'node:fs/promises';
import path from 'node:path';
import { UsageError } from '../src/platform/command.js';
import { exists } from '../src/platform/files.js';
import { didYouMean } from '../src/platform/nearest.js';
import { PROJECT_ROOT } from '../src/platform/project-root.js';

/** An example that a stack can play by itself: a folder of `examples` with a temporal.yaml and a batch.json. */
export interface Example {
  name: string;
  config: string;
  /** Its request. */
  batch: string;
  /** Settings of its simulator; null: those of the demonstration. */
  simulator: string | null;
}

const OWN = path.join(PROJECT_ROOT, 'examples');

const isWhole = async (folder: string): Promise<boolean> =>
  (await exists(path.join(folder, 'temporal.yaml'))) &&
  (await exists(path.join(folder, 'batch.json')));

/** In `examples` of the current folder, where an installed package puts it first. */
export async function findExample(name: string): Promise<Example> {
  const folder = path.join('examples', name);
  if (!/^[\w-]+$/.test(name) || !(await isWhole(path.join(OWN, name)))) throw await noExample(name);
  if (!(await isWhole(folder))) await copyExamples(path.join(OWN, name), folder);
  const simulator = path.join(folder, 'simulator.yaml');
  return {
    name,
    config: path.join(folder, 'temporal.yaml'),
    batch: path.join(folder, 'batch.json'),
    simulator: (await exists(simulator)) ? simulator : null,
  };
}

/** Leaves files that are there as they are. What Python has compiled or installed belongs to where it is. */
export async function copyExamples(from: string, to: string): Promise<void> {
  const filter = (file: string): boolean => !/^(__pycache__|\.venv)$/.test(path.basename(file));
  await cp(from, to, { recursive: true, force: false, filter });
}

async function noExample(name: string): Promise<UsageError> {
  const folders = await readdir(OWN);
  const whole = await Promise.all(folders.map((folder) => isWhole(path.join(OWN, folder))));
  const known = folders.filter((_, i) => whole[i]);
  return new UsageError(
    `--example: expected ${known.join(', ')}, got ${JSON.stringify(name)}${didYouMean(name, known)}`,
  );
}
