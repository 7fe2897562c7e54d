import { plainLine } from '../platform/plain.js';
import { headOf, widthOf } from './text-width.js';

/** A line of the terminal, made of spans, so that it can be measured and cut before it is coloured. */
export type Line = readonly Span[];
type Span = string | { text: string; ink: Ink };
type Ink = keyof typeof CODES;

const CODES = {
  bold: '1',
  dim: '2',
  red: '31',
  green: '32',
  yellow: '33',
  filled: '42',
  empty: '100',
} as const;

export interface TextStyle {
  columns: number;
  colour: boolean;
}

/** Cut at `columns` (marked with dots if something is missing), without control characters, coloured or not. */
export function renderLine(line: Line, { columns, colour }: TextStyle): string {
  let left = columns;
  const parts: string[] = [];
  for (const span of line) {
    const { text, ink } = typeof span === 'string' ? { text: span, ink: null } : span;
    const shown = plainLine(text);
    const fits = headOf(shown, left);
    if (fits !== shown) {
      const cut = left > 3 ? `${headOf(shown, left - 3)}...` : '.'.repeat(left);
      parts.push(paint(cut, { ink, colour }));
      break;
    }
    parts.push(paint(shown, { ink, colour }));
    left -= widthOf(fits);
  }
  return parts.join('');
}

/** For a board: a line that wraps would take two rows of the screen, and be counted as one when it is drawn again. */
export const cutLines = (lines: readonly string[], style: TextStyle): string[] =>
  lines.map((line) => renderLine([line], style));

/** Rows as lines of equal columns, of which some stand at the right; plain, and as wide as a terminal shows them. */
export function inColumns(
  rows: readonly (readonly string[])[],
  isRight: (column: number) => boolean = () => false,
): string[] {
  const cells = rows.map((row) =>
    row.map(plainLine).map((text) => ({ text, width: widthOf(text) })),
  );
  const widths = (rows[0] ?? []).map((_, at) =>
    cells.reduce((most, row) => Math.max(most, row[at]?.width ?? 0), 0),
  );
  const lineOf = (row: (typeof cells)[number]): string =>
    row
      .map(({ text, width }, at) => {
        const room = ' '.repeat((widths[at] ?? 0) - width);
        return isRight(at) ? room + text : text + room;
      })
      .join('  ');
  return cells.map(lineOf);
}

export interface Column<T> {
  title: string;
  right?: true;
  cell: (row: T) => string;
}

/** The line of the titles, then one for each row. */
export const tableOf = <T>(columns: readonly Column<T>[], rows: readonly T[]): string[] =>
  inColumns(
    [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ cell }) => cell(row)))],
    (at) => columns[at]?.right === true,
  );

/** `left`, as many spaces as fit, `right`. */
export function spread(left: Line, right: { line: Line; columns: number }): Line {
  const gap = right.columns - lengthOf(left) - lengthOf(right.line);
  return gap < 2 ? [...left, '  ', ...right.line] : [...left, ' '.repeat(gap), ...right.line];
}

const lengthOf = (line: Line): number =>
  line.reduce((length, span) => length + widthOf(typeof span === 'string' ? span : span.text), 0);

function paint(text: string, { ink, colour }: { ink: Ink | null; colour: boolean }): string {
  return ink === null || !colour || text === '' ? text : `\u001b[${CODES[ink]}m${text}\u001b[0m`;
}
