import { BOXED, lastBoxed } from '../math/dapo-answer.js';
import { strip } from '../../platform/python/text.js';

/** What stands between `<tag>` and the last `</tag>`, as a greedy regex finds it, in linear time; null without. */
export function taggedText(text: string, tag: string): string | null {
  const open = `<${tag}>`;
  const start = text.indexOf(open);
  const end = text.lastIndexOf(`</${tag}>`);
  return start >= 0 && end >= start + open.length ? text.slice(start + open.length, end) : null;
}

/** The content of the last `\boxed{…}` up to its own closing brace; null without one. */
export function boxedText(text: string): string | null {
  const box = lastBoxed(text);
  return box === null ? null : strip(box.slice(BOXED.length, -1));
}
