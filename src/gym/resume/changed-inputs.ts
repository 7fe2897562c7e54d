import { isLosslessNumber } from 'lossless-json';
import type { Json } from '../../model/lossless-json.js';
import { formatJson, isObject } from '../../model/lossless-json.js';
import { ATTEMPT_INDEX } from '../keys.js';
import type { GymRow } from '../row.js';
import { rolloutName } from '../row.js';

/** Changes that are named one by one. */
const MOST_NAMED = 10;
/** Characters of a value that are shown. */
const MOST_SHOWN = 60;

export interface Inputs {
  /** Rows of the materialised inputs that a collection began with. */
  cached: GymRow[];
  /** Rows as the configuration and the input file give them. */
  now: GymRow[];
  /** False: a line of the cached rows could not be read, so that a row they lack is no change. */
  whole?: boolean;
}

/** What differs, by row and field, at most ten of them; `[]`: nothing. The order of rows, and how numbers are written, do not count. */
export function changedInputs({ cached, now, whole = true }: Inputs): string[] {
  const before = new Map(cached.map((row) => [rolloutName(row.key), row]));
  const after = new Map(now.map((row) => [rolloutName(row.key), row]));
  const changes: string[] = [];
  for (const [name, { row }] of after) {
    const old = before.get(name);
    if (old !== undefined) {
      const [difference] = differences(old.row, { value: row, path: '' });
      if (difference !== undefined) changes.push(`row ${name}: ${difference}`);
    } else if (whole) {
      changes.push(`row ${name}: is new`);
    }
  }
  for (const name of before.keys()) if (!after.has(name)) changes.push(`row ${name}: is gone`);
  if (changes.length <= MOST_NAMED) return changes;
  return [...changes.slice(0, MOST_NAMED), `… and ${changes.length - MOST_NAMED} more rows`];
}

/** The first comes soonest: nothing beyond it is looked for. */
function* differences(
  old: Json | undefined,
  { value, path }: { value: Json | undefined; path: string },
): Iterable<string> {
  if (isObject(old) && isObject(value)) {
    for (const key of new Set([...Object.keys(old), ...Object.keys(value)])) {
      if (path === '' && key === ATTEMPT_INDEX) continue;
      const below = path === '' ? key : `${path}.${key}`;
      yield* differences(old[key], { value: value[key], path: below });
    }
  } else if (Array.isArray(old) && Array.isArray(value) && old.length === value.length) {
    for (const [index, item] of old.entries()) {
      yield* differences(item, { value: value[index], path: `${path}.${index}` });
    }
  } else if (!isSame(old, value)) {
    yield `${path} was ${shown(old)}, is ${shown(value)}`;
  }
}

/** Numbers by value: what wrote the file may write `1e-07` as `1e-7` and a very large integer as a float. */
function isSame(old: Json | undefined, value: Json | undefined): boolean {
  if (isLosslessNumber(old) && isLosslessNumber(value)) {
    const areInts = [old, value].every((number) => /^-?\d+$/.test(number.value));
    return areInts
      ? BigInt(old.value) === BigInt(value.value)
      : Number(old.value) === Number(value.value);
  }
  if (Array.isArray(old) && Array.isArray(value)) return old.length === value.length;
  return old === value;
}

function shown(value: Json | undefined): string {
  if (value === undefined) return 'not there';
  const text = formatJson(value);
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
}
