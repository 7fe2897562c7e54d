import { readdirSync, readFileSync } from 'node:fs';

/** Recorded runs of upstream's environments: see `test/goldens/README.md`. */
const GOLDENS = new URL('../goldens/', import.meta.url);

/** Every recording of a folder whose name begins so, by name; at least one. */
export function readGoldens<T>(folder: string, prefix = ''): [name: string, golden: T][] {
  const directory = new URL(`${folder}/`, GOLDENS);
  const files = readdirSync(directory).filter(
    (file) => file.startsWith(prefix) && file.endsWith('.json'),
  );
  if (files.length === 0) throw new Error(`no goldens ${folder}/${prefix}*`);
  return files.map((file) => [
    file.replace('.json', ''),
    JSON.parse(readFileSync(new URL(file, directory), 'utf8')) as T,
  ]);
}

export function readGolden(folder: string, name: string): unknown {
  const golden = readGoldens<unknown>(folder, name).find(([found]) => found === name);
  if (golden === undefined) throw new Error(`no golden ${folder}/${name}`);
  return golden[1];
}

/** Equal to a relative tolerance. */
export function isNear(
  got: number,
  { expected, relative }: { expected: number; relative: number },
): boolean {
  return Math.abs(got - expected) <= relative * Math.max(Math.abs(got), Math.abs(expected));
}
