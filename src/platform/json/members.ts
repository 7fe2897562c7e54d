import { Scan } from './scan.js';

/**
 * A JSON object one level deep: each value is its JSON text, so `1.0` stays `1.0` and unread values are never parsed.
 * Pure: workflows use it, too. In the order of its keys; a repeated key has its first place and its last value.
 */
export type Members = Map<string, string>;

/** The members of an object, from a text known to be JSON; null if the text is another value. */
export function membersOf(text: string): Members | null {
  const scan = new Scan(text);
  if (scan.next() !== '{') return null;
  const members: Members = new Map();
  for (let first = scan.next(); first !== '}' && first !== ''; first = scan.next()) {
    if (first === ',') continue;
    const name = JSON.parse(scan.value()) as string;
    scan.next();
    scan.next();
    members.set(name, scan.value());
  }
  return members;
}

/** The entries of a list, likewise; null if the text is another value. */
export function itemsOf(text: string): string[] | null {
  const scan = new Scan(text);
  if (scan.next() !== '[') return null;
  const items: string[] = [];
  for (let first = scan.next(); first !== ']' && first !== ''; first = scan.next())
    if (first !== ',') items.push(scan.value());
  return items;
}

/** The object's text on one line, without spaces. */
export function objectText(members: Iterable<[string, string]>): string {
  const parts: string[] = [];
  for (const [name, text] of members) parts.push(`${JSON.stringify(name)}:${text}`);
  return `{${parts.join(',')}}`;
}
