import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isNumber, isObject } from '../json/exact.js';
import { nameProblem } from '../../src/model/untrusted.js';
import { parseOverrideValue } from './override-value.js';

/** One argument of the form `+key=value`. */
interface Override {
  /** The original text. */
  text: string;
  /** The parts of a dotted key. */
  path: string[];
  value: Json;
  /** `++`: replaces any existing value. */
  force: boolean;
}

/**
 * Arguments in Hydra's form, `+k=v`, `++k=v` or `k=v`, as one object. `+a.b=1` nests; mappings are merged. A second `+`
 * for one key is an error, as in Hydra.
 */
export function parseOverrides(args: string[]): JsonObject {
  const config: JsonObject = {};
  for (const argument of args) apply(config, readOverride(argument));
  return config;
}

function readOverride(text: string): Override {
  if (text.startsWith('~')) {
    throw new Error(
      `${text}: nothing can be deleted, because only the fields that are given here exist: leave it out`,
    );
  }
  const equals = text.indexOf('=');
  const [, signs = '', key = ''] =
    /^(\+{0,2})(.*)$/s.exec(text.slice(0, Math.max(equals, 0))) ?? [];
  if (equals < 0 || key === '') {
    throw new Error(`${text} is not understood: expected key=value, +key=value or ++key=value`);
  }
  if (/[@/\s[\]]/.test(key)) {
    throw new Error(
      `${text}: key ${key}: expected names with dots between (config groups and packages are not supported)`,
    );
  }
  const path = key.split('.');
  if (path.includes('')) throw new Error(`${text}: key ${key} has an empty part`);
  for (const problem of path.map(nameProblem)) {
    if (problem !== null) throw new Error(`${text}: key ${key}: ${problem}`);
  }
  try {
    return { text, path, value: parseOverrideValue(text.slice(equals + 1)), force: signs === '++' };
  } catch (error) {
    throw new Error(`${text} is not understood: ${describeError(error)}`, { cause: error });
  }
}

function apply(config: JsonObject, { path, value, force, text }: Override): void {
  let at = config;
  for (const part of path.slice(0, -1)) {
    const next = at[part];
    if (isObject(next)) {
      at = next;
    } else {
      const created: JsonObject = {};
      at[part] = created;
      at = created;
    }
  }
  const key = path.at(-1) ?? '';
  const there = at[key] ?? null;
  const isPlain = value === null || typeof value !== 'object' || isNumber(value);
  if (there !== null && isPlain && !force) {
    throw new Error(
      `Could not append to config. An item is already at '${path.join('.')}'. ` +
        `Give it once, or override it: '++${text.replace(/^\++/, '')}'`,
    );
  }
  at[key] = isObject(there) && isObject(value) ? mergeConfigs(there, value) : value;
}

/** As OmegaConf merges: mappings key by key, everything else is replaced; a missing value (`???`) leaves what is there. */
export function mergeConfigs(base: JsonObject, over: JsonObject): JsonObject {
  const merged = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const there = merged[key];
    if (isObject(there) && isObject(value)) merged[key] = mergeConfigs(there, value);
    else if (value !== '???' || there === undefined) merged[key] = value;
  }
  return merged;
}
