import path from 'node:path';
import type { z } from 'zod';
import { UsageError } from '../../src/platform/command.js';
import { describeError } from '../../src/platform/errors.js';
import type { JsonObject } from '../json/exact.js';
import { isObject, numberOf } from '../json/exact.js';
import {
  E2ERolloutCollectionConfig,
  RewardProfileConfig,
  RolloutAggregationConfig,
  RolloutCollectionConfig,
} from './schemas.js';
import type { Flags } from './flags.js';
import {
  AGGREGATE_FLAGS,
  PROFILE_FLAGS,
  quoted,
  readCommandLine,
  RUN_FLAGS,
  withSearchDirs,
} from './flags.js';
import { loadGymConfig } from './global-config.js';
import { findInstallation } from './installation.js';
import { EFFECTIVE_KEYS, hasNoEffect, isServer } from './known-keys.js';
import { pickFields } from './pick-fields.js';
import { reprOf } from '../python/repr.js';
import type { Places } from './search-roots.js';
import { INSTALLED, resolveUnderRoots, searchRoots } from './search-roots.js';
import { exists } from '../../src/platform/files.js';
import { parseYaml } from './yaml-text.js';
import { textOf } from '../../src/platform/utf8-text.js';
import { readWhole } from '../../src/platform/regular-file.js';

export interface CommandArguments extends Places {
  /** The arguments after the command's name: overrides in Hydra's form, flags of `gym eval …`, and `own`. */
  args: string[];
  /** Options of the command itself, without dashes; each takes a value. `--config` may always name temporal.yaml. */
  own?: string[];
}

export interface ParsedCommand<T> {
  config: T;
  /** URL of the head server: of `head_server`, else 127.0.0.1:11000. */
  head_server: string;
  /** Gym's global configuration as a whole. */
  gym: JsonObject;
  /** Where files are looked up, search directories included. */
  places: Places;
  /** The arguments in Hydra's form, with all configuration files: what Gym's own commands take. */
  overrides: string[];
  no_serve: boolean;
  /** Gym's program on this machine; null: there is none. */
  program: string | null;
  /** The command's own options, as given. */
  own: Partial<Record<string, string>>;
  /** Messages to print before the work starts. */
  notes: string[];
}

/** Fields of all of these commands: each accepts the others' without effect. */
const FIELDS = [
  ...Object.keys(RolloutCollectionConfig.shape),
  ...Object.keys(E2ERolloutCollectionConfig.shape),
  ...Object.keys(RolloutAggregationConfig.shape),
  ...Object.keys(RewardProfileConfig.shape),
];

/**
 * `temporal-rollout collect`: the arguments of `ng_collect_rollouts` and of `gym eval run --no-serve`. Throws all
 * problems at once.
 */
export const parseCollect = (command: CommandArguments) =>
  parseCommand(command, { flags: RUN_FLAGS, schema: RolloutCollectionConfig });

/** `temporal-rollout collect-e2e`: those of `ng_e2e_collect_rollouts` and of `gym eval run`. */
export const parseE2E = (command: CommandArguments) =>
  parseCommand(command, {
    flags: RUN_FLAGS,
    schema: E2ERolloutCollectionConfig,
    // Upstream makes the collection's configuration of what is written, not of what it has resolved.
    params_as_written: true,
    serves: true,
  });

/** `temporal-rollout aggregate`: those of `gym eval aggregate`. */
export const parseAggregate = (command: CommandArguments) =>
  parseCommand(command, { flags: AGGREGATE_FLAGS, schema: RolloutAggregationConfig });

/** `temporal-rollout profile`: those of `gym eval profile`. */
export const parseProfile = (command: CommandArguments) =>
  parseCommand(command, { flags: PROFILE_FLAGS, schema: RewardProfileConfig });

interface CommandKind<T extends z.ZodObject> {
  flags: Flags;
  schema: T;
  params_as_written?: boolean;
  /** Starts servers where NeMo Gym is installed. */
  serves?: boolean;
}

async function parseCommand<T extends z.ZodObject>(
  command: CommandArguments,
  kind: CommandKind<T>,
): Promise<ParsedCommand<z.output<T>>> {
  return await understood(command, kind).catch((cause: unknown) => {
    throw new UsageError(describeError(cause), { cause });
  });
}

async function understood<T extends z.ZodObject>(
  { args, cwd, env, own = [] }: CommandArguments,
  { flags, schema, params_as_written = false, serves = false }: CommandKind<T>,
): Promise<ParsedCommand<z.output<T>>> {
  const line = readCommandLine(args, { flags, own });
  const given = { cwd, env: withSearchDirs(env, line.search_dirs) };
  const { program = null, root = null } = (await findInstallation(given)) ?? {};
  const places = root === null ? given : { cwd, env: { [INSTALLED]: root, ...given.env } };
  const { deployment, gym_configs } = await sortConfigs(line.configs, places);
  const files = [...gym_configs];
  for (const asset of line.assets) files.push(await assetConfig(asset, places));
  const overrides = withConfigs(line.overrides, files);
  const gym = await loadGymConfig({ args: overrides, params_as_written, ...places });
  const hands_on = serves && program !== null && !line.no_serve;
  const { fields, notes } = pickFields(gym, { schema, siblings: FIELDS, hands_on });
  return {
    config: fields,
    head_server: headServerOf(gym.config),
    gym: gym.config,
    places,
    overrides,
    no_serve: line.no_serve,
    program,
    own: deployment === null ? line.own : { ...line.own, config: deployment },
    notes,
  };
}

/** Files of `--config` and of named components come before those of `config_paths`, as in upstream. */
function withConfigs(overrides: string[], files: string[]): string[] {
  if (files.length === 0) return overrides;
  const isPaths = /^\+{0,2}config_paths=\[(.*)\]$/s;
  const listed = overrides.flatMap((override) => isPaths.exec(override)?.[1]?.split(',') ?? []);
  const all = [...files.map(quoted), ...listed.filter((entry) => entry.trim() !== '')];
  return [
    `+config_paths=[${all.join(',')}]`,
    ...overrides.filter((override) => !isPaths.test(override)),
  ];
}

/**
 * `--config` names a file of Gym's, as in upstream, or temporal.yaml, as for every command here. The content decides.
 */
async function sortConfigs(
  files: string[],
  places: Places,
): Promise<{ deployment: string | null; gym_configs: string[] }> {
  const deployments: string[] = [];
  const gym_configs: string[] = [];
  for (const file of files) {
    const isGym = await isGymConfig(await resolveUnderRoots(file, places));
    (isGym ? gym_configs : deployments).push(file);
  }
  const [deployment = null, second] = deployments;
  if (second !== undefined) {
    throw new Error(`--config: expected one temporal.yaml, got ${deployments.join(' and ')}`);
  }
  return { deployment, gym_configs };
}

async function isGymConfig(file: string): Promise<boolean> {
  const bytes = await readWhole(file).catch(() => null);
  if (bytes === null) return false;
  const config = parseYaml(textOf(bytes, file), file);
  if (!isObject(config) || 'environments' in config || 'generation' in config) return false;
  const fields = Object.keys(E2ERolloutCollectionConfig.shape);
  return Object.entries(config).some(
    ([key, value]) =>
      EFFECTIVE_KEYS.has(key) || fields.includes(key) || hasNoEffect(key) || isServer(value),
  );
}

const DEFAULT_HEAD_SERVER_PORT = 11_000;

function headServerOf(gym: JsonObject): string {
  const given = gym['head_server'] ?? {};
  if (!isObject(given)) {
    throw new Error(`head_server: expected {host, port}, got ${reprOf(given)}`);
  }
  const host = given['host'] ?? gym['default_host'] ?? '127.0.0.1';
  const port = given['port'] === undefined ? DEFAULT_HEAD_SERVER_PORT : numberOf(given['port']);
  if (typeof host !== 'string')
    throw new Error(`head_server.host: expected text, got ${reprOf(host)}`);
  if (port === null || !Number.isInteger(port)) {
    throw new Error(`head_server.port: expected an integer, got ${reprOf(given['port'] ?? null)}`);
  }
  return `http://${host}:${port}`;
}

const ASSET_FOLDERS: Partial<Record<string, string>> = {
  benchmark: 'benchmarks',
  environment: 'environments',
  'resources-server': 'resources_servers',
  'agent-type': 'responses_api_agents',
  'model-type': 'responses_api_models',
};

/** The configuration file of a component that is given by name (`aime24`, `vllm_model/vllm_model_for_training`). */
async function assetConfig(
  [kind, name]: [kind: string, name: string],
  places: Places,
): Promise<string> {
  const folder = ASSET_FOLDERS[kind] ?? '';
  // Others have a folder of configurations, with one of their own name.
  const hasOne = kind === 'benchmark' || kind === 'environment';
  const [component = '', given = ''] = name.split(/\/(.*)/s);
  const file = `${given || (hasOne ? 'config' : component)}.yaml`;
  const relative = path.join(folder, component, hasOne ? '' : 'configs', file);
  const candidates = searchRoots(places).flatMap((root) => [
    ...(hasOne && given !== '' ? [path.join(root, folder, name, 'config.yaml')] : []),
    path.join(root, relative),
  ]);
  for (const candidate of candidates) if (await exists(candidate)) return candidate;
  throw new Error(
    `--${kind} ${name} was specified which implies config ${relative}, which does not exist. Looked in:\n` +
      searchRoots(places)
        .map((root) => `  - ${root}`)
        .join('\n') +
      '\nConfigs that come with Gym are found from its checkout, where its `gym` is on the PATH, or with its directory as --search-dir.',
  );
}
