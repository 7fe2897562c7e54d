import type { Json, JsonObject } from '../json/exact.js';
import { isObject, mapItems } from '../json/exact.js';
import { mergeConfigs } from './overrides.js';
import { reprOf } from '../python/repr.js';

/** The value of a field that is not given yet. */
export const MISSING = '???';

/**
 * Gym's directives. `_inherit_from: a.b` (and `${inherit_from:a.b}`) moves the value at `a.b` here and merges the
 * written fields over it. `_copy` leaves the original. `_delete_key: x, y` drops keys. The order of passes is
 * upstream's (`_recursively_swap_keys` at 07d6b0d); a moved value is not searched again.
 */
export function applyDirectives(config: JsonObject): JsonObject {
  const root = copyOf(config) as JsonObject;
  applyIn(root, { root, frozen: config });
  return root;
}

interface Roots {
  root: JsonObject;
  /** The state before any directive. */
  frozen: JsonObject;
}

function applyIn(dict: JsonObject, roots: Roots): void {
  for (const [key, value] of Object.entries(dict)) {
    const late = isObject(value) ? takeDeletions(value) : [];
    for (const inner of isObject(value) ? [value] : Array.isArray(value) ? value : []) {
      if (isObject(inner)) applyIn(inner, roots);
    }
    const directive = directiveOf(value);
    if (directive === null) continue;
    const taken = take(directive, roots);
    if (taken === null) {
      dict[key] = MISSING;
      continue;
    }
    const merged = isObject(taken) && isObject(value) ? mergeConfigs(taken, value) : taken;
    for (const name of late) {
      if (!isObject(merged) || !Object.hasOwn(merged, name)) {
        throw new Error(`_delete_key names '${name}', which ${key} does not have`);
      }
      Reflect.deleteProperty(merged, name);
    }
    dict[key] = merged;
  }
}

/** Deletes existing keys; returns the names that must come with what is inherited. */
function takeDeletions(value: JsonObject): string[] {
  const names =
    takeText(value, '_delete_key')
      ?.split(',')
      .map((name) => name.trim()) ?? [];
  return names.filter((name) => !Reflect.has(value, name) || !Reflect.deleteProperty(value, name));
}

interface Directive {
  path: string[];
  move: boolean;
}

function directiveOf(value: Json): Directive | null {
  if (typeof value === 'string') {
    const [, kind, path] = /^\$\{(inherit_from|copy):([^}]*)\}$/.exec(value) ?? [];
    return path === undefined ? null : { path: path.split('.'), move: kind === 'inherit_from' };
  }
  if (!isObject(value)) return null;
  const inherited = takeText(value, '_inherit_from');
  const copied = takeText(value, '_copy');
  const path = copied ?? inherited;
  return path === null ? null : { path: path.split('.'), move: inherited !== null };
}

function takeText(object: JsonObject, key: string): string | null {
  const value = object[key];
  if (value === undefined) return null;
  if (typeof value !== 'string') throw new Error(`${key}: expected text, got ${reprOf(value)}`);
  Reflect.deleteProperty(object, key);
  return value;
}

/** null: the source is not given yet. */
function take({ path, move }: Directive, { root, frozen }: Roots): Json | null {
  const source = valueAt(frozen, path);
  if (source === null) return null;
  // Several may inherit from one path; only the first finds it there.
  const parent = path
    .slice(0, -1)
    .reduce<Json | undefined>((at, key) => (isObject(at) ? at[key] : undefined), root);
  if (move && isObject(parent)) Reflect.deleteProperty(parent, path.at(-1) ?? '');
  return copyOf(source);
}

function valueAt(config: JsonObject, path: string[]): Json | null {
  let at: Json = config;
  for (const key of path) {
    const value: Json | undefined = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
    if (value === undefined) {
      throw new Error(`Path specified does not exist in config: ${reprOf(path)}`);
    }
    if (value === MISSING) return null;
    at = value;
  }
  return at;
}

const copyOf = (value: Json): Json => mapItems(value, copyOf);
