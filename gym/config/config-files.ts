import path from 'node:path';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject } from '../json/exact.js';
import { reprOf } from '../python/repr.js';
import { resolveUnderRoots, searchRoots } from './search-roots.js';
import { exists } from '../../src/platform/files.js';
import type { Places } from './search-roots.js';
import { parseYaml } from './yaml-text.js';
import { readText } from '../../src/platform/utf8-text.js';

export interface ConfigFile {
  /** Its name as given. */
  entry: string;
  config: JsonObject;
}

/** `env.yaml`, which holds secrets and names of configurations; `{}` if there is none. */
export async function loadEnvFile(places: Places): Promise<JsonObject> {
  const file = await resolveUnderRoots('env.yaml', places);
  return (await exists(file)) ? await loadMapping(file) : {};
}

/** `config_paths`: a list of paths, or an error that says so. */
export function configPathsOf(config: JsonObject): string[] {
  const paths = config['config_paths'] ?? [];
  if (Array.isArray(paths) && paths.every((entry) => typeof entry === 'string')) return paths;
  throw new Error(
    `'config_paths' must be a list of paths. Got: ${reprOf(paths)}.\n` +
      "Pass it as '+config_paths=[<path>,<path>]'.",
  );
}

/**
 * The files and what they include by their own `config_paths`, in merge order: each after its includes, siblings as
 * listed, so that a later one wins. A file that is named twice is loaded once, at its first place.
 */
export async function loadConfigFiles(entries: string[], places: Places): Promise<ConfigFile[]> {
  const known = new Set(entries);
  // Breadth first decides which file included another one; depth first is the merge order.
  const loaded = new Map<string, { config: JsonObject; includes: string[] }>();
  for (const entry of known) {
    const config = await loadEntry(entry, places);
    const includes = [...new Set(configPathsOf(config).filter((path) => !known.has(path)))];
    for (const included of includes) known.add(included);
    loaded.set(entry, { config, includes });
  }
  const ordered: ConfigFile[] = [];
  const visit = (entry: string): void => {
    const file = loaded.get(entry);
    if (file === undefined) return;
    for (const included of file.includes) visit(included);
    ordered.push({ entry, config: file.config });
  };
  for (const entry of new Set(entries)) visit(entry);
  return ordered;
}

async function loadEntry(entry: string, places: Places): Promise<JsonObject> {
  const file = await resolveUnderRoots(entry, places);
  if (await exists(file)) return await loadMapping(file);
  const searched = path.isAbsolute(entry)
    ? [entry]
    : searchRoots(places).map((root) => path.join(root, entry));
  throw new Error(
    `config_paths entry '${entry}' was not found. Looked in:\n` +
      searched.map((place) => `  - ${place}\n`).join('') +
      'Check the path is spelled correctly and is relative to your working directory or an extra root ' +
      '(NEMO_GYM_EXTRA_ROOTS / --search-dir). Configs that come with Gym are found from its checkout, ' +
      'where its `gym` is on the PATH, or with its directory as an extra root.',
  );
}

async function loadMapping(file: string): Promise<JsonObject> {
  const config: Json = parseYaml(await readText(file), file);
  if (config === null) return {};
  if (isObject(config)) return config;
  throw new Error(`'${file}': expected a mapping, got ${reprOf(config)}`);
}
