import type { Json, JsonObject } from '../json/exact.js';
import { isObject } from '../json/exact.js';
import { configPathsOf, loadConfigFiles, loadEnvFile } from './config-files.js';
import { applyDirectives, MISSING } from './inherit.js';
import type { Resolved, Unresolved } from './interpolation.js';
import { referencedKeys, resolveInterpolations, resolveTakenOut } from './interpolation.js';
import { mergeConfigs, parseOverrides } from './overrides.js';
import type { Places } from './search-roots.js';

export interface GymConfig {
  /** Everything merged, directives applied, interpolations resolved if possible. */
  config: JsonObject;
  /** Top-level keys of the files. */
  written: Set<string>;
  /** Top-level keys that an interpolation refers to: these are variables. */
  referenced: Set<string>;
  /** Values that must not be read from `config`; most of them concern servers that run elsewhere. */
  unresolved: Unresolved[];
}

export interface GymArguments extends Places {
  /** In Hydra's form. */
  args: string[];
  /** `responses_create_params` stay as they are written; they must have values all the same. */
  params_as_written?: boolean;
}

/**
 * Gym's global configuration from arguments: the files of `config_paths` and their includes, then `env.yaml`, then the
 * arguments. All values that are still `???` are reported in one error.
 */
export async function loadGymConfig({
  args,
  params_as_written = false,
  ...places
}: GymArguments): Promise<GymConfig> {
  const overrides = parseOverrides(args);
  const env = await loadEnvFile(places);
  const entries = configPathsOf(mergeConfigs(env, overrides));
  const files = await loadConfigFiles(entries, places);
  const written = [...files.map(({ config }) => config), env].reduce<JsonObject>(mergeConfigs, {});
  const merged = mergeConfigs(written, overrides);
  if (entries.length > 0) merged['config_paths'] = files.map(({ entry }) => entry);
  const whole = applyDirectives(merged);
  refuseMissing(whole);
  const { config, unresolved } = resolveAll(whole, places.env);
  const params = whole[TAKEN_OUT];
  if (params_as_written && params !== undefined) config[TAKEN_OUT] = params;
  const referenced = referencedKeys(merged);
  return { config, written: new Set(Object.keys(written)), referenced, unresolved };
}

/** Rows get these from a configuration of their own (`rows/materialize.ts`). */
const TAKEN_OUT = 'responses_create_params';

function resolveAll(whole: JsonObject, env: Places['env']): Resolved {
  const { config, unresolved } = resolveInterpolations(whole, env);
  if (!(TAKEN_OUT in whole)) return { config, unresolved };
  const taken = resolveTakenOut(TAKEN_OUT, { config: whole, env });
  const elsewhere = unresolved.filter(({ where }) => where.split('.')[0] !== TAKEN_OUT);
  return {
    config: { ...config, ...taken.config },
    unresolved: [...elsewhere, ...taken.unresolved],
  };
}

function refuseMissing(config: JsonObject): void {
  const missing = missingPaths(config, '');
  if (missing.length === 0) return;
  throw new Error(
    `${missing.length} required config value(s) are unset (still '???') after merging:\n` +
      `${missing.map((path) => `  - ${path}`).join('\n')}\n\n` +
      'Provide each value via a CLI override, in env.yaml, or in a config you pass via config_paths.\n' +
      'For example, on the command line:\n' +
      missing
        .slice(0, 3)
        .map((path) => `  ++${path}=<value>`)
        .join('\n'),
  );
}

function missingPaths(value: Json, prefix: string): string[] {
  if (value === MISSING) return [prefix];
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => missingPaths(item, `${prefix}[${index}]`));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, item]) =>
    missingPaths(item, prefix === '' ? key : `${prefix}.${key}`),
  );
}
