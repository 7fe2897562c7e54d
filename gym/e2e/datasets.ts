import { z } from 'zod';
import type { Json, JsonObject } from '../../src/platform/json/lossless.js';
import { isObject } from '../../src/platform/json/lossless.js';
import { problemsOf } from '../../src/model/problems.js';
import { Text, Whole } from '../config/schemas.js';
import { reprOf, strOf } from '../../src/platform/python/repr.js';

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

export interface Dataset extends z.infer<typeof Settings> {
  /** The agent that plays its rows. */
  agent: string;
  /** Gym's command that downloads the file; null: no source is given. */
  how_to_get: string | null;
}

/**
 * The data sets of a split, agent by agent, in the order of the configuration. If the split has none, the error lists
 * what exists.
 */
export function datasetsOf(gym: JsonObject, split: Split): Dataset[] {
  const all = Object.entries(gym).flatMap(([agent, instance]) =>
    entriesOf(instance).map((entry, index) => readEntry(entry, { agent, index })),
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

/** The `datasets` of an agent's only implementation. */
function entriesOf(instance: Json): Json[] {
  const kinds = isObject(instance) ? instance['responses_api_agents'] : undefined;
  const [agent] = isObject(kinds) ? Object.values(kinds) : [];
  const datasets = isObject(agent) ? agent['datasets'] : undefined;
  return Array.isArray(datasets) ? datasets : [];
}

function readEntry(entry: Json, { agent, index }: { agent: string; index: number }): Dataset {
  if (!isObject(entry))
    throw new Error(`dataset ${index} of ${agent}: expected an object, got ${reprOf(entry)}`);
  const parsed = Settings.safeParse(entry);
  if (parsed.success) {
    return {
      ...parsed.data,
      agent,
      how_to_get: howToGet(parsed.data, isObject(entry) ? entry : {}),
    };
  }
  const problems = problemsOf(parsed.error, entry).map(({ where, what }) => `${where}: ${what}`);
  throw new Error(`dataset ${index} of ${agent}: ${problems.join('; ')}`);
}

function howToGet(settings: z.infer<typeof Settings>, entry: JsonObject): string | null {
  const source = isObject(entry['source']) ? entry['source'] : null;
  const gitlab = source?.['type'] === 'gitlab' ? source : entry['gitlab_identifier'];
  const hub = source?.['type'] === 'huggingface' ? source : entry['huggingface_identifier'];
  const to = `+output_fpath=${settings.jsonl_fpath}`;
  if (isObject(hub)) {
    const artifact = hub['artifact_fpath'] ?? null;
    const which =
      artifact === null ? `+split=${settings.type}` : `+artifact_fpath=${strOf(artifact)}`;
    return `gym dataset download +repo_id=${strOf(hub['repo_id'] ?? null)} ${which} ${to}`;
  }
  if (isObject(gitlab)) {
    const given = ['dataset_name', 'version', 'artifact_fpath'].map(
      (key) => `+${key}=${strOf(gitlab[key] ?? null)}`,
    );
    return `gym dataset download --storage gitlab ${given.join(' ')} ${to}`;
  }
  if (settings.prepare_script === null) return null;
  return `gym eval prepare '+config_paths=[…]' (it runs ${settings.prepare_script})`;
}
