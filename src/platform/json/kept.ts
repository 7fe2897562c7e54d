import { firstLoss } from './losses.js';
import { afterString, itemsOf, membersOf } from './members.js';
import { entriesOf, inOrder, orderOf } from './order.js';

/**
 * JSON of others, which must come back as it came. JavaScript's values lose digits (`9223372036854775783`, `1.0`,
 * `1e400`), the order of names that are whole numbers, and all but the last of repeated names. Text that would lose
 * none of it becomes a plain value; any other stays text. Pure: workflows use it, too.
 */

/** Foreign JSON that stays text. */
export class KeptJson {
  /** On one line, without blanks between its parts. */
  readonly text: string;

  /** `text` must be JSON. */
  constructor(text: string) {
    this.text = compact(text);
  }

  /** The nearest value that JavaScript has. */
  get plain(): unknown {
    const value: unknown = JSON.parse(this.text);
    return value;
  }

  /** For `JSON.stringify`, which cannot write a text: the nearest value. `writeJson` writes the text. */
  toJSON(): unknown {
    if (search === null) return this.plain;
    search.found = true;
    return null;
  }
}

/** `writeJson` looks for texts by `JSON.stringify`, which is fast and whose result stands if there is none. */
let search: { found: boolean } | null = null;

/**
 * Where a text holds data of others: all of it, some members, or each entry of a list. `*` stands for members without
 * a name here; null: a member is ours.
 */
export type Foreign = 'all' | ForeignMembers | readonly [Foreign];
export interface ForeignMembers {
  readonly [name: string]: Foreign | null;
}

/**
 * Like `JSON.parse`, but what is foreign and would lose something is a `KeptJson`. Bounds of depth and size are the
 * caller's: `shapeProblem`.
 */
export function readJson(text: string, foreign: Foreign = 'all'): unknown {
  const plain: unknown = JSON.parse(text);
  return isLossy(text, foreign) ? kept(text, foreign) : plain;
}

function isLossy(text: string, foreign: Foreign): boolean {
  if (foreign === 'all') return firstLoss(text) !== null;
  const parts = partsOf(text, foreign);
  return (
    parts.some(({ value, foreign: part }) => part !== null && isLossy(value, part)) ||
    (hasOtherNames(parts, foreign) && orderOf(objectOf(parts, () => 0)) !== null)
  );
}

/** Whether an object has names of others that JavaScript might put elsewhere. */
const hasOtherNames = (
  parts: readonly Part[],
  foreign: ForeignMembers | readonly [Foreign],
): boolean =>
  !isList(foreign) && foreign['*'] !== undefined && parts.some(({ name }) => /^\d+$/.test(name));

function kept(text: string, foreign: Foreign | null): unknown {
  if (foreign === null || !isLossy(text, foreign)) return JSON.parse(text);
  if (foreign === 'all') return new KeptJson(text);
  const parts = partsOf(text, foreign);
  if (isList(foreign)) return parts.map(({ value, foreign: part }) => kept(value, part));
  return objectOf(parts, ({ value, foreign: part }) => kept(value, part));
}

/** As JSON.parse does it: the last value of a repeated name, and __proto__ is a name like others. */
const objectOf = (parts: readonly Part[], valueOf: (part: Part) => unknown): object =>
  inOrder(
    Object.fromEntries(parts.map((part) => [part.name, valueOf(part)])),
    parts.map(({ name }) => name),
  );

interface Part {
  name: string;
  value: string;
  foreign: Foreign | null;
}

function partsOf(text: string, foreign: ForeignMembers | readonly [Foreign]): Part[] {
  if (isList(foreign)) {
    const [each] = foreign;
    return (itemsOf(text) ?? []).map((value) => ({ name: '', value, foreign: each }));
  }
  return Array.from(membersOf(text) ?? [], ([name, value]) => {
    const part = Object.hasOwn(foreign, name) ? foreign[name] : foreign['*'];
    return { name, value, foreign: part ?? null };
  });
}

const isList = (foreign: Foreign): foreign is readonly [Foreign] => Array.isArray(foreign);

/** A value without what it keeps as text: the nearest value that JavaScript has. */
export const plainOf = <T>(value: T | KeptJson): T =>
  value instanceof KeptJson ? (value.plain as T) : value;

/**
 * Like `JSON.stringify`, but a `KeptJson` anywhere in the value is its text, and the names of the value itself come in
 * the order of the text that they were read from.
 */
export function writeJson(value: unknown, indent = 0): string {
  const outer = search;
  const mine = { found: false };
  search = mine;
  let text: string | undefined;
  try {
    text = JSON.stringify(value, null, indent);
  } finally {
    search = outer;
  }
  const isOther = mine.found || (isObject(value) && orderOf(value) !== null);
  return (isOther ? written(value, { name: '', indent, line: '\n' }) : text) ?? 'null';
}

interface Place {
  name: string;
  indent: number;
  /** The line break before the value's closing bracket. */
  line: string;
}

function written(value: unknown, place: Place): string | undefined {
  if (value instanceof KeptJson) return value.text;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (hasToJson(value)) return written(value.toJSON(place.name), place);
  const { indent } = place;
  const inner = { indent, line: place.line + ' '.repeat(indent) };
  if (Array.isArray(value)) {
    if (indent === 0 && !value.some(isObject)) return JSON.stringify(value);
    const parts = value.map((one, at) => written(one, { ...inner, name: String(at) }) ?? 'null');
    return joined(parts, { brackets: '[]', place });
  }
  const colon = indent === 0 ? ':' : ': ';
  const parts = entriesOf(value as Record<string, unknown>).flatMap(([name, one]) => {
    const text = written(one, { ...inner, name });
    return text === undefined ? [] : [`${JSON.stringify(name)}${colon}${text}`];
  });
  return joined(parts, { brackets: '{}', place });
}

const hasToJson = (value: object): value is { toJSON: (name: string) => unknown } =>
  'toJSON' in value && typeof value.toJSON === 'function';

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

function joined(
  parts: readonly string[],
  { brackets, place: { indent, line } }: { brackets: '[]' | '{}'; place: Place },
): string {
  const [open, close] = brackets;
  if (parts.length === 0) return brackets;
  if (indent === 0) return `${open}${parts.join(',')}${close}`;
  const inner = line + ' '.repeat(indent);
  return `${open}${inner}${parts.join(`,${inner}`)}${line}${close}`;
}

/** The same JSON without blanks between its parts. */
function compact(text: string): string {
  const parts: string[] = [];
  const next = /["\s]/g;
  let from = 0;
  for (let found = next.exec(text); found !== null; found = next.exec(text)) {
    if (found[0] === '"') next.lastIndex = afterString(text, found.index);
    else {
      parts.push(text.slice(from, found.index));
      from = found.index + 1;
    }
  }
  return from === 0 ? text : parts.join('') + text.slice(from);
}
