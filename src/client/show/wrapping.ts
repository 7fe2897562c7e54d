import { plain } from '../../platform/plain.js';

/** Scripts and pictures whose characters take two columns. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
/** They combine with the previous character. */
const WITHOUT_WIDTH = /[\p{Mn}\ufe00-\ufe0f]/u;
const TAB = '    ';

export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

const widthOfCharacter = (character: string): number =>
  WITHOUT_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;

/** The text's lines for a terminal of this width, cut at blanks if there are any. */
export function wrapped(text: string, columns: number): string[] {
  return plain(text)
    .replaceAll('\t', TAB)
    .split('\n')
    .flatMap((line) => wrapLine(line, columns));
}

function wrapLine(line: string, columns: number): string[] {
  if (!Number.isFinite(columns) || widthOf(line) <= columns) return [line];
  const lines: string[] = [];
  let current = '';
  let width = 0;
  let blank = -1;
  for (const character of line) {
    const more = widthOfCharacter(character);
    if (width + more > columns && current !== '') {
      // A blank in the first half would leave a ragged column.
      const cut = blank > current.length / 2 ? blank : current.length;
      lines.push(current.slice(0, cut).trimEnd());
      current = current.slice(cut).trimStart();
      width = widthOf(current);
      blank = -1;
      if (current === '' && character === ' ') continue;
    }
    if (character === ' ') blank = current.length;
    current += character;
    width += more;
  }
  return [...lines, current];
}

/** Padded with blanks up to `columns`. */
export const padded = (text: string, columns: number): string =>
  text + ' '.repeat(Math.max(0, columns - widthOf(text)));
