import { itemsOf, membersOf } from './members.js';
import { entriesOf, inOrder, orderOf } from './order.js';
import { Scan } from './scan.js';

/**
 * JSON of others, which comes back as it came. JavaScript's values lose digits (`9223372036854775783`, `1.0`, `1e400`),
 * the order of names that are whole numbers, and all but the last of repeated names. So it stays text. Pure: workflows
 * use it, too.
 */

export class KeptJson {
  /** On one line, without blanks between its parts, its strings as JavaScript writes them. */
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** The nearest value that JavaScript has. */
  get plain(): unknown {
    const value: unknown = JSON.parse(this.text);
    return value;
  }

  /** For `JSON.stringify`, which cannot write a text: the nearest value. `writeJson` writes the text. */
  toJSON(): unknown {
    return this.plain;
  }

  toString(): string {
    return this.text;
  }
}

/** All of it, some members, or each entry of a list. `*`: members without a name here; null: a member is ours. */
export type Foreign = 'all' | ForeignMembers | readonly [Foreign];
export interface ForeignMembers {
  readonly [name: string]: Foreign | null;
}

/**
 * Like `JSON.parse`, but lists and objects that are foreign are a `KeptJson`, and so are numbers that JavaScript would
 * write otherwise. Bounds of depth and size are the caller's: `shapeProblem`.
 */
export const readJson = (text: string, foreign: Foreign = 'all'): unknown =>
  kept(JSON.parse(text), { text, foreign });

/** The text of foreign JSON, which has been checked. */
export const keptJson = (text: string): KeptJson => new KeptJson(onOneLine(text));

/** `value`: what `JSON.parse` makes of the text. */
function kept(value: unknown, { text, foreign }: { text: string; foreign: Foreign }): unknown {
  if (foreign === 'all') {
    if (typeof value === 'number') return String(value) === text ? value : keptJson(text);
    if (!isObject(value)) return value;
    return isOnOneLine(value, text) ? new KeptJson(text) : keptJson(text);
  }
  if (!isObject(value)) return value;
  if (isList(foreign)) {
    const [each] = foreign;
    const items = itemsOf(text);
    if (items === null || !Array.isArray(value)) return value;
    return items.map((item, at) => kept(value[at], { text: item, foreign: each }));
  }
  const foreignOf = (name: string): Foreign | null =>
    (Object.hasOwn(foreign, name) ? foreign[name] : foreign['*']) ?? null;
  const values = value as Record<string, unknown>;
  if (!Object.keys(values).some((name) => foreignOf(name) !== null)) return value;
  const members = membersOf(text);
  if (members === null) return value;
  const entries = Array.from(members, ([name, member]) => {
    const part = foreignOf(name);
    return [
      name,
      part === null ? values[name] : kept(values[name], { text: member, foreign: part }),
    ];
  });
  // `__proto__` is a name like others.
  return inOrder(Object.fromEntries(entries) as object, members.keys());
}

const isList = (foreign: Foreign): foreign is readonly [Foreign] => Array.isArray(foreign);

export const plainOf = <T>(value: T | KeptJson): T =>
  value instanceof KeptJson ? (value.plain as T) : value;

/** Like `JSON.stringify`, but a `KeptJson` is its text, and names come in the order in which they were read. */
export const writeJson = (value: unknown): string =>
  (isOdd(value) ? written(value, '') : JSON.stringify(value)) ?? 'null';

/** Whether there is something that `JSON.stringify`, which is faster than what is written here, cannot write. */
function isOdd(value: unknown): boolean {
  if (!isObject(value)) return false;
  if (Array.isArray(value)) return value.some(isOdd);
  if (hasToJson(value) || orderOf(value) !== null) return true;
  for (const name in value) if (isOdd((value as Record<string, unknown>)[name])) return true;
  return false;
}

function written(value: unknown, name: string): string | undefined {
  if (!isObject(value)) return JSON.stringify(value);
  if (value instanceof KeptJson) return value.text;
  if (hasToJson(value)) return written(value.toJSON(name), name);
  if (Array.isArray(value)) {
    if (!value.some(isObject)) return JSON.stringify(value);
    return `[${value.map((one, at) => written(one, String(at)) ?? 'null').join(',')}]`;
  }
  let members = '';
  for (const [key, one] of entriesOf(value as Record<string, unknown>)) {
    const text = written(one, key);
    if (text !== undefined) members += `${members && ','}${JSON.stringify(key)}:${text}`;
  }
  return `{${members}}`;
}

const hasToJson = (value: object): value is { toJSON: (name: string) => unknown } =>
  'toJSON' in value && typeof value.toJSON === 'function';

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Whether the text is what JavaScript writes, as this project's mostly is: that is faster to find out than to make it so. */
function isOnOneLine(value: object, text: string): boolean {
  try {
    return JSON.stringify(value) === text;
  } catch {
    // Too deep for it.
    return false;
  }
}

const BLANKS = /\s+|"/g;

/** The same JSON without blanks between its parts, its strings as `JSON.stringify` writes them. */
function onOneLine(text: string): string {
  const scan = new Scan(text);
  let written = '';
  let from = 0;
  for (let token = scan.next(BLANKS); token !== ''; token = scan.next(BLANKS)) {
    const string = token === '"' ? text.slice(scan.start, scan.end) : '';
    if (string !== '' && !string.includes('\\')) continue;
    written += text.slice(from, scan.start);
    if (string !== '') written += JSON.stringify(JSON.parse(string));
    from = scan.end;
  }
  return written + text.slice(from);
}
