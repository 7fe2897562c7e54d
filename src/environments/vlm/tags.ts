import { strip } from '../python-text.js';

/** What stands between `<tag>` and the last `</tag>`, as a greedy regex finds it, in linear time; null without. */
export function taggedText(text: string, tag: string): string | null {
  const open = `<${tag}>`;
  const start = text.indexOf(open);
  const end = text.lastIndexOf(`</${tag}>`);
  return start >= 0 && end >= start + open.length ? text.slice(start + open.length, end) : null;
}

/** The content of the last `\boxed{…}` up to its own closing brace; null without one. */
export function lastBoxed(text: string): string | null {
  const token = '\\boxed{';
  const at = text.lastIndexOf(token);
  if (at < 0) return null;
  const start = at + token.length;
  let depth = 1;
  for (let i = start; i < text.length; i++) {
    if (text[i] === '{') depth += 1;
    else if (text[i] === '}') depth -= 1;
    if (depth === 0) return strip(text.slice(start, i));
  }
  return null;
}
