import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';
import { replaceFile } from '../src/platform/files.js';
import type { Config } from '../src/workers/config.js';
import type { GenerationServiceSettings } from '../src/workers/generation-settings.js';
import { environmentAt, loadConfig } from '../src/workers/config.js';

export interface LocalConfigOptions {
  /** The deployment's temporal.yaml. */
  source: string;
  /** What its relative paths are relative to; absent: its folder. */
  directory?: string;
  /** Where the local stack's copy goes. */
  target: string;
  address: string;
  namespace: string;
  /**
   * Base URL of the simulator, or of the engine in its place, with `/v1`, which plays service `default`; null: those that
   * the source names.
   */
  generationUrl: string | null;
  /** Of the stack's page of rollouts; absent: it has none. The source's comes first. */
  viewerUrl?: string;
  /** URLs of environments that other processes serve to this stack; those of the source come first. */
  served?: Record<string, string>;
  /** Whether the source may be missing. */
  missing?: boolean;
  /** What the source says, if somebody has read it. */
  settings?: Config;
}

/**
 * Writes the settings of the local stack: those of the source with absolute paths, this stack's Temporal server, and its
 * simulator if no engine plays. Throws the errors of `loadConfig` here, where they are seen, instead of in the
 * worker's log.
 */
export async function writeLocalConfig(options: LocalConfigOptions): Promise<Config> {
  const {
    source,
    target,
    address,
    namespace,
    generationUrl,
    viewerUrl = null,
    served = {},
    missing = false,
    directory = path.dirname(path.resolve(source)),
    settings = await loadConfig(source, { missing, directory }),
  } = options;
  const { generation } = settings;
  const more = Object.entries(served).map(([name, url]) => [name, environmentAt(url)] as const);
  const local: Config = {
    ...settings,
    // A profile would restore the address and the keys of the user's temporal.toml.
    temporal: { ...settings.temporal, profile: null, address, namespace },
    generation: generationUrl === null ? generation : playedBy(generationUrl, generation),
    environments: { ...Object.fromEntries(more), ...settings.environments },
    viewer: { url: settings.viewer.url ?? viewerUrl },
  };
  await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
  // A restarting worker reads the old file or the new one.
  const origin = `# Written by each start of the local stack, from ${path.resolve(source)}`;
  await replaceFile(target, { content: `${origin}\n${stringify(local)}` });
  return local;
}

const playedBy = (url: string, generation: Config['generation']): Config['generation'] => ({
  ...generation,
  default: {
    ...(generation['default'] ?? FALLBACK),
    base_urls: [url],
    // These describe the service that is replaced.
    model: null,
    api_key_env: null,
    control: { urls: null, api_key_env: null },
    allow: [],
  },
});

const FALLBACK: Omit<GenerationServiceSettings, 'base_urls'> = {
  kind: 'vllm',
  model: null,
  api_key_env: null,
  special_tokens: [],
  role_map: {},
  images: 'engine',
  first_token_timeout: '10m',
  idle_timeout: '2m',
  max_concurrent: null,
  wire: 'completions',
  control: { urls: null, api_key_env: null },
  allow: [],
  forget_after: '1h',
};
