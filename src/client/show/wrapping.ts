import { plain } from '../../platform/plain.js';
import { clustersOf, headOf, widthOf } from '../text-width.js';

const TAB = '    ';

/** The text's lines for a terminal of this width, cut at blanks if there are any. */
export function wrapped(text: string, columns: number): string[] {
  return plain(text)
    .replaceAll('\t', TAB)
    .split('\n')
    .flatMap((line) => wrapLine(line, columns));
}

function wrapLine(line: string, columns: number): string[] {
  if (!Number.isFinite(columns) || headOf(line, columns) === line) return [line];
  const lines: string[] = [];
  let current = '';
  let width = 0;
  let blank = -1;
  for (const { text: character, columns: more } of clustersOf(line)) {
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
