import stringWidth from 'string-width';

/** What a terminal shows as one character: a letter with its accents, a flag, an emoji with the tone of its skin. */
export interface Cluster {
  text: string;
  columns: number;
}

const ASCII = /^[\x20-\x7e]*$/;
const SEGMENTER = new Intl.Segmenter();
/** The time that a segmenter takes grows with the square of the text's length. */
const AT_ONCE = 256;
/** A cluster that is wider is many letters that a script may join without an end. */
const WIDEST = 8;

export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const { columns } of clustersOf(text)) width += columns;
  return width;
}

export function* clustersOf(text: string): Generator<Cluster> {
  if (ASCII.test(text)) {
    for (const character of text) yield { text: character, columns: 1 };
    return;
  }
  for (const segment of segmentsOf(text)) {
    const columns = columnsOf(segment);
    if (columns <= WIDEST) yield { text: segment, columns };
    else for (const one of segment) yield { text: one, columns: columnsOf(one) };
  }
}

/** Text for people has no terminal commands. */
const columnsOf = (text: string): number => stringWidth(text, { countAnsiEscapeCodes: true });

function* segmentsOf(text: string): Generator<string> {
  let size = AT_ONCE;
  for (let from = 0; from < text.length;) {
    const piece = text.slice(from, from + size);
    const isLast = from + size >= text.length;
    let taken = 0;
    for (const { segment, index } of SEGMENTER.segment(piece)) {
      // The text behind the piece may belong to its last segment.
      if (!isLast && index + segment.length === piece.length) break;
      yield segment;
      taken = index + segment.length;
    }
    size = taken === 0 ? 2 * size : AT_ONCE;
    from += taken;
  }
}

export function headOf(text: string, columns: number): string {
  let left = columns;
  let head = '';
  for (const cluster of clustersOf(text)) {
    left -= cluster.columns;
    if (left < 0) break;
    head += cluster.text;
  }
  return head;
}
