import { z } from 'zod';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject, jsonNumber } from '../json/exact.js';
import { problemsOf } from '../../src/model/problems.js';
import { Text, Whole } from '../config/schemas.js';
import { reprOf, strOf } from '../python/repr.js';
import { exists } from '../../src/platform/files.js';
import type { Places } from '../config/search-roots.js';
import { resolveUnderRoots } from '../config/search-roots.js';
import { howToDownload, hubPage, isHubName } from '../../src/platform/hub.js';

export type Split = 'train' | 'validation' | 'benchmark';

/** The needed fields of an entry of an agent's `datasets`. */
const Settings = z.object({
  name: Text,
  type: Text,
  jsonl_fpath: Text,
  num_repeats: z.preprocess(
    (value) => value ?? '1',
    Whole.refine((count) => count >= 1, 'expected 1 or more'),
  ),
  /** A benchmark's template: its rows have no input, and the template creates it. */
  prompt_config: Text.nullish().transform((file) => file ?? null),
  prepare_script: Text.nullish().transform((file) => file ?? null),
});

type Settings = z.infer<typeof Settings>;

export interface Dataset extends Settings {
  /** The agent that plays its rows. */
  agent: string;
  /** The name of its file on the Hub; null: it is no single file there. */
  hub: string | null;
  /** The command that downloads the file; null: no source is given. */
  how_to_get: string | null;
  /** The whole entry as upstream writes it beside its metrics. */
  described: JsonObject;
}

/**
 * The data sets of a split, agent by agent, in the order of the configuration. If the split has none, the error lists
 * what exists.
 */
export function datasetsOf(
  gym: JsonObject,
  { split, env }: { split: Split; env: Places['env'] },
): Dataset[] {
  const all = Object.entries(gym).flatMap(([agent, instance]) =>
    entriesOf(instance).map((entry, index) =>
      readEntry(entry, { agent, index, env, config_paths: configPathsText(gym) }),
    ),
  );
  const chosen = all.filter(({ type }) => type === split);
  if (chosen.length > 0) return chosen;
  const there = all.map(({ agent, name, type }) => `\n  - ${name} (${type}) of ${agent}`).join('');
  throw new Error(
    `no agent of the configuration has a dataset of type ${split}; ` +
      (there === ''
        ? "there are no datasets. Give the configurations of your environment as '+config_paths=[…]'"
        : `there are:${there}`),
  );
}

/** As an override of Gym's commands. */
export function configPathsText(gym: JsonObject): string {
  const paths = Array.isArray(gym['config_paths']) ? gym['config_paths'] : [];
  const listed = paths.filter((file) => typeof file === 'string').join(',');
  return `'+config_paths=[${listed}]'`;
}

/** The `datasets` of an agent's only implementation. */
function entriesOf(instance: Json): Json[] {
  const kinds = isObject(instance) ? instance['responses_api_agents'] : undefined;
  const [agent] = isObject(kinds) ? Object.values(kinds) : [];
  const datasets = isObject(agent) ? agent['datasets'] : undefined;
  return Array.isArray(datasets) ? datasets : [];
}

interface Entry {
  agent: string;
  index: number;
  env: Places['env'];
  config_paths: string;
}

function readEntry(entry: Json, { agent, index, ...hints }: Entry): Dataset {
  if (!isObject(entry))
    throw new Error(`dataset ${index} of ${agent}: expected an object, got ${reprOf(entry)}`);
  const parsed = Settings.safeParse(entry);
  if (parsed.success) {
    const { data } = parsed;
    const sources = sourcesOf(entry);
    const described = describedOf(data, { entry, sources });
    const hub = hubNameOf(sources);
    return { ...data, agent, hub, how_to_get: howToGet(data, { sources, hints }), described };
  }
  const problems = problemsOf(parsed.error, entry).map(({ where, what }) => `${where}: ${what}`);
  throw new Error(`dataset ${index} of ${agent}: ${problems.join('; ')}`);
}

/** Upstream's two ways to say where a file comes from: `source`, and an identifier for each place. */
interface Sources {
  source: JsonObject | null;
  gitlab: JsonObject | null;
  huggingface: JsonObject | null;
}

function sourcesOf(entry: JsonObject): Sources {
  const given = isObject(entry['source']) ? entry['source'] : null;
  const find = (type: string): JsonObject | null => {
    const own = given?.['type'] === type ? given : entry[`${type}_identifier`];
    if (!isObject(own)) return null;
    const { artifact_fpath = null } = own;
    if (type === 'huggingface') return { repo_id: own['repo_id'] ?? null, artifact_fpath };
    const { dataset_name = null, version = null } = own;
    return { dataset_name, version, artifact_fpath };
  };
  const [gitlab, huggingface] = [find('gitlab'), find('huggingface')];
  const both = gitlab !== null && huggingface !== null;
  const one =
    gitlab === null ? { type: 'huggingface', ...huggingface } : { type: 'gitlab', ...gitlab };
  return { gitlab, huggingface, source: both || (gitlab ?? huggingface) === null ? null : one };
}

/** As upstream's `DatasetConfig` and `BenchmarkDatasetConfig` are written. */
function describedOf(
  { name, type, jsonl_fpath, num_repeats, prepare_script, prompt_config }: Settings,
  { entry, sources }: { entry: JsonObject; sources: Sources },
): JsonObject {
  const repeats = jsonNumber(num_repeats);
  if (type === 'benchmark' && prepare_script !== null)
    return { name, type, jsonl_fpath, prepare_script, prompt_config, num_repeats: repeats };
  const { source, gitlab: gitlab_identifier, huggingface: huggingface_identifier } = sources;
  const license = entry['license'] ?? null;
  const from = { source, gitlab_identifier, huggingface_identifier };
  return { name, type, jsonl_fpath, num_repeats: repeats, ...from, license };
}

/** A repository has the name of its owner before its own. */
const REPOSITORY = /^(?!datasets\/|spaces\/)[\w.-]+\/[\w.-]+$/;

function hubNameOf({ huggingface }: Sources): string | null {
  const { repo_id = null, artifact_fpath = null } = huggingface ?? {};
  if (typeof repo_id !== 'string' || typeof artifact_fpath !== 'string') return null;
  const isName = REPOSITORY.test(repo_id) && !artifact_fpath.split('/').includes('..');
  return isName ? `hf://datasets/${repo_id}/${artifact_fpath}` : null;
}

function howToGet(
  settings: Settings,
  { sources, hints }: { sources: Sources; hints: Pick<Entry, 'env' | 'config_paths'> },
): string | null {
  if (isHubName(settings.jsonl_fpath)) return howToDownload(settings.jsonl_fpath, hints.env);
  const to = `+output_fpath=${settings.jsonl_fpath}`;
  const { gitlab, huggingface } = sources;
  if (huggingface !== null) {
    const repo = strOf(huggingface['repo_id'] ?? null);
    const artifact = huggingface['artifact_fpath'] ?? null;
    const file = artifact === null ? null : strOf(artifact);
    const which = file === null ? `+split=${settings.type}` : `+artifact_fpath=${file}`;
    const hub = hubNameOf(sources);
    const or = hub === null ? '' : `or by: ${howToDownload(hub, hints.env)}; `;
    const page = hubPage(repo, { file, env: hints.env });
    return `gym dataset download +repo_id=${repo} ${which} ${to} (${or}or from ${page})`;
  }
  if (gitlab !== null) {
    const given = ['dataset_name', 'version', 'artifact_fpath'].map(
      (key) => `+${key}=${strOf(gitlab[key] ?? null)}`,
    );
    return `gym dataset download --storage gitlab ${given.join(' ')} ${to}`;
  }
  if (settings.prepare_script === null) return null;
  return `gym eval prepare ${hints.config_paths} (it runs ${settings.prepare_script})`;
}

/** The file of a data set: where it should be, else the one that upstream would copy there, in a cache of the Hub. */
export async function rowsOf(
  { jsonl_fpath, hub }: Pick<Dataset, 'jsonl_fpath' | 'hub'>,
  places: Places,
): Promise<string> {
  const file = await resolveUnderRoots(jsonl_fpath, places);
  if (hub === null || (await exists(file))) return file;
  const cached = await resolveUnderRoots(hub, places);
  return (await exists(cached)) ? cached : file;
}
