import { strip } from '../../platform/python/text.js';

const OPEN = '<answer>';
const CLOSE = '</answer>';
const THINK = '<think>';
const BETWEEN = `</think>\n${OPEN}`;

/** What stands in the last answer tag, up to where one first closes; without tags the whole text. */
export function answerOf(text: string): string {
  const start = text.lastIndexOf(OPEN);
  const rest = start === -1 ? text : text.slice(start + OPEN.length);
  const end = rest.indexOf(CLOSE);
  return strip(end === -1 ? rest : rest.slice(0, end));
}

/** `<think>…</think>`, a newline, `<answer>…</answer>` and nothing else but a last newline; one answer alone. */
export function isWellFormed(text: string): boolean {
  const isSingle = (tag: string): boolean =>
    text.includes(tag) && text.indexOf(tag) === text.lastIndexOf(tag);
  if (!isSingle(OPEN) || !isSingle(CLOSE) || !text.startsWith(THINK)) return false;
  const between = text.indexOf(BETWEEN, THINK.length);
  const end = text.endsWith('\n') ? text.length - 1 : text.length;
  const close = end - CLOSE.length;
  return between !== -1 && close >= between + BETWEEN.length && text.startsWith(CLOSE, close);
}
