import path from 'node:path';
import { exists, searchRoots } from './search-roots.js';
import type { Places } from './search-roots.js';

interface Kind {
  folder: string;
  configs: string;
  /** The file's name where none is given; null: the component's own. */
  flavor: string | null;
}

const KINDS: Partial<Record<string, Kind>> = {
  benchmark: { folder: 'benchmarks', configs: '', flavor: 'config' },
  environment: { folder: 'environments', configs: '', flavor: 'config' },
  'resources-server': { folder: 'resources_servers', configs: 'configs', flavor: null },
  'model-type': { folder: 'responses_api_models', configs: 'configs', flavor: null },
};

/** The configuration file of a component that is given by name (`aime24`, `vllm_model/vllm_model_for_training`). */
export async function assetConfig(
  [kind, name]: [kind: string, name: string],
  places: Places,
): Promise<string> {
  const { folder = '', configs = '', flavor = null } = KINDS[kind] ?? {};
  const [component = '', given = ''] = name.split(/\/(.*)/s);
  const file = `${given || (flavor ?? component)}.yaml`;
  const relative = path.join(folder, component, configs, file);
  const candidates = searchRoots(places).flatMap((root) => [
    ...(flavor === 'config' && given !== '' ? [path.join(root, folder, name, 'config.yaml')] : []),
    path.join(root, relative),
  ]);
  for (const candidate of candidates) if (await exists(candidate)) return candidate;
  throw new Error(
    `--${kind} ${name} was specified which implies config ${relative}, which does not exist. Looked in:\n` +
      searchRoots(places)
        .map((root) => `  - ${root}`)
        .join('\n') +
      '\nConfigs that come with Gym are found from its checkout, or with its directory as --search-dir.',
  );
}
