const BACKSLASH = 0x5c;
/** The escape of half a character: the first (D800 to DBFF) or the second (DC00 to DFFF) of a pair. */
const HALF = /\\u[dD][89a-fA-F][0-9a-fA-F]{2}/g;
const ESCAPE_LENGTH = 6;
const REPLACEMENT = '\ufffd';

/** A JSON text in which each escape of half a character without its other half is a replacement character. */
export function withoutHalves(text: string): string {
  const parts: string[] = [];
  let from = 0;
  const next = new RegExp(HALF);
  for (let found = next.exec(text); found !== null; found = next.exec(text)) {
    const at = found.index;
    if (isEscaped(text, at)) {
      // The backslash belongs to the one before it: the letters after it are text.
      next.lastIndex = at + 1;
      continue;
    }
    if (isFirst(text, at) && isSecond(text, at + ESCAPE_LENGTH)) {
      next.lastIndex = at + 2 * ESCAPE_LENGTH;
      continue;
    }
    parts.push(text.slice(from, at), REPLACEMENT);
    from = at + ESCAPE_LENGTH;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(from);
}

/** Whether the backslash at `at` is the second of an escape. */
function isEscaped(text: string, at: number): boolean {
  let before = 0;
  while (text.charCodeAt(at - 1 - before) === BACKSLASH) before += 1;
  return before % 2 === 1;
}

const isFirst = (text: string, at: number): boolean => /[89abAB]/.test(text[at + 3] ?? '');

const isSecond = (text: string, at: number): boolean =>
  /^\\u[dD][c-fC-F][0-9a-fA-F]{2}/.test(text.slice(at, at + ESCAPE_LENGTH));
