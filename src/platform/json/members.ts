/**
 * A JSON object one level deep: each value is its JSON text, so `1.0` stays `1.0` and unread values are never parsed.
 * Pure: workflows use it, too. In the order of its keys; a repeated key has its first place and its last value.
 */
export type Members = Map<string, string>;

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;

/** The members of an object, from a text known to be JSON; null if the text is another value. */
export function membersOf(text: string): Members | null {
  let at = afterSpace(text, 0);
  if (text[at] !== '{') return null;
  const members: Members = new Map();
  at = afterSpace(text, at + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const nameEnd = afterString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const start = afterSpace(text, afterSpace(text, nameEnd) + 1);
    const end = afterValue(text, start);
    members.set(name, text.slice(start, end));
    at = afterSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = afterSpace(text, at + 1);
  }
  return members;
}

/** The entries of a list, likewise; null if the text is another value. */
export function itemsOf(text: string): string[] | null {
  let at = afterSpace(text, 0);
  if (text[at] !== '[') return null;
  const items: string[] = [];
  at = afterSpace(text, at + 1);
  while (at < text.length && text[at] !== ']') {
    const end = afterValue(text, at);
    items.push(text.slice(at, end));
    at = afterSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = afterSpace(text, at + 1);
  }
  return items;
}

/** The object's text on one line, without spaces. */
export function objectText(members: Iterable<[string, string]>): string {
  const parts: string[] = [];
  for (const [name, text] of members) parts.push(`${JSON.stringify(name)}:${text}`);
  return `{${parts.join(',')}}`;
}

function afterSpace(text: string, from: number): number {
  let at = from;
  // Space, tab, line feed, carriage return: all that JSON allows, and nothing else below 0x21.
  while (text.charCodeAt(at) <= 0x20) at += 1;
  return at;
}

/** The index behind a string; `from` is at its opening quote. */
export function afterString(text: string, from: number): number {
  const end = stringEnd(text, from);
  if (end === null) throw new SyntaxError('a string does not end');
  return end + 1;
}

/** The index of a string's closing quote; null: it does not end. */
export function stringEnd(text: string, from: number): number | null {
  let at = from;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at === -1) return null;
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at;
  }
}

function afterValue(text: string, from: number): number {
  const first = text[from];
  if (first === '"') return afterString(text, from);
  return first === '{' || first === '[' ? afterNested(text, from) : afterScalar(text, from);
}

const SCALAR_ENDS = /[\s,\]}]|$/g;

function afterScalar(text: string, from: number): number {
  const end = new RegExp(SCALAR_ENDS);
  end.lastIndex = from;
  return end.exec(text)?.index ?? text.length;
}

const STRUCTURE = /["{}[\]]/g;

function afterNested(text: string, from: number): number {
  const next = new RegExp(STRUCTURE);
  next.lastIndex = from;
  let depth = 0;
  for (;;) {
    const found = next.exec(text);
    if (found === null) throw new SyntaxError('an object or array does not end');
    const [token] = found;
    if (token === '"') next.lastIndex = afterString(text, found.index);
    else depth += token === '{' || token === '[' ? 1 : -1;
    if (depth === 0) return found.index + 1;
  }
}
