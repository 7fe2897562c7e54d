import { afterString, objectText } from './members.js';

const STRUCTURE = /["{}[\],:\s]/g;

/**
 * The same JSON as Python's `indent=2` lays it out, with all lines after the first indented by `depth` levels; numbers
 * keep their text.
 */
export function indentedJson(text: string, depth: number): string {
  const parts: string[] = [];
  const next = new RegExp(STRUCTURE);
  let level = depth;
  let from = 0;
  const lineAt = (deep: number): string => `\n${'  '.repeat(deep)}`;
  for (let found = next.exec(text); found !== null; found = next.exec(text)) {
    const [token] = found;
    const at = found.index;
    if (token === '"') {
      next.lastIndex = afterString(text, at);
      continue;
    }
    parts.push(text.slice(from, at));
    from = at + 1;
    if (token === ',') parts.push(`,${lineAt(level)}`);
    else if (token === ':') parts.push(': ');
    else if (token === '{' || token === '[') {
      const isEmpty = /^\s*[}\]]/.test(text.slice(from, from + 64));
      level += 1;
      parts.push(isEmpty ? token : `${token}${lineAt(level)}`);
    } else if (token === '}' || token === ']') {
      level -= 1;
      const isEmpty = /[{[]$/.test(parts.findLast((part) => part !== '') ?? '');
      parts.push(isEmpty ? token : `${lineAt(level)}${token}`);
    }
  }
  parts.push(text.slice(from));
  return parts.join('');
}

/** An object of such members, indented. */
export const indentedObject = (members: Iterable<[string, string]>, depth: number): string =>
  indentedJson(objectText(members), depth);

/** As Python's `indent=4` lays it out. */
export const widelyIndented = (text: string): string =>
  indentedJson(text, 0).replaceAll(/^ +/gm, (indent) => indent.repeat(2));
