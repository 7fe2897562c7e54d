import type { Json } from '../json/exact.js';
import { formatJson, isNumber, isObject } from '../json/exact.js';
import { ATTEMPT_INDEX } from '../keys.js';
import type { GymRow, RowKey } from '../row.js';
import { rolloutName } from '../row.js';

/** How many changed fields are named. */
const MOST_NAMED = 10;
/** How much of a value is shown. */
const MOST_SHOWN = 60;

interface Inputs {
  /** Rows of the materialised inputs with which a collection began. */
  cached: GymRow[];
  /** Rows from the configuration and the input file. */
  now: GymRow[];
  /** false: a line of the cached rows was unreadable, so a missing row is no change. */
  whole?: boolean;
}

/** One change of some rows: the same field, or new or missing rows. */
interface Change {
  /** The change in the first row. */
  text: string;
  first: RowKey;
  rows: number;
  /** Whether all of them have the first one's text. */
  alike: boolean;
}

/**
 * The differences, by field and first row, at most ten fields; `[]`: none. The order of rows and the notation of
 * numbers do not count.
 */
export function changedInputs({ cached, now, whole = true }: Inputs): string[] {
  const before = new Map(cached.map((row) => [rolloutName(row.key), row]));
  const after = new Map(now.map((row) => [rolloutName(row.key), row]));
  const changes = new Map<string, Change>();
  const add = (what: string, { text, key }: { text: string; key: RowKey }): void => {
    const known = changes.get(what);
    if (known === undefined) changes.set(what, { text, first: key, rows: 1, alike: true });
    else {
      known.rows += 1;
      known.alike &&= known.text === text;
    }
  };
  for (const [name, { key, row }] of after) {
    const old = before.get(name);
    if (old !== undefined) {
      const [difference] = differences(old.row, { value: row, path: '' });
      if (difference !== undefined) add(`field ${difference.path}`, { text: difference.text, key });
    } else if (whole) {
      add('new', { text: 'is new', key });
    }
  }
  for (const [name, { key }] of before) if (!after.has(name)) add('gone', { text: 'is gone', key });
  const texts = [...changes.values()].map((change) => textOf(change, after.size));
  if (texts.length <= MOST_NAMED) return texts;
  return [...texts.slice(0, MOST_NAMED), `… and ${texts.length - MOST_NAMED} more fields`];
}

function textOf({ text, first, rows, alike }: Change, all: number): string {
  const name = rolloutName(first);
  if (rows === 1) return `row ${name}: ${text}`;
  const several = `row ${name} and ${rows - 1} more`;
  if (text === 'is new' || text === 'is gone') return `${several}: ${text.replace('is', 'are')}`;
  const which = rows === all ? `all ${rows} rows` : several;
  return alike ? `${which}: ${text}` : `${which}: ${text} in row ${name}`;
}

/** Lazy: nothing beyond the first difference is computed if only that is needed. */
function* differences(
  old: Json | undefined,
  { value, path }: { value: Json | undefined; path: string },
): Iterable<{ path: string; text: string }> {
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
    yield { path, text: `${path} was ${shown(old)}, is ${shown(value)}` };
  }
}

/** Numbers by value: the file's writer may turn `1e-07` into `1e-7` and a very large integer into a float. */
function isSame(old: Json | undefined, value: Json | undefined): boolean {
  if (!isNumber(old) || !isNumber(value)) return old === value;
  const areInts = [old, value].every((number) => /^-?\d+$/.test(number.text));
  const as = areInts ? BigInt : Number;
  return as(old.text) === as(value.text);
}

function shown(value: Json | undefined): string {
  if (value === undefined) return 'not there';
  const text = formatJson(value);
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
}
