import { formatNumber } from '../number-text.js';
import type { Line, TextStyle } from '../text-line.js';
import { inColumns, renderLine } from '../text-line.js';
import type { Listed } from './listed.js';
import { isOpen } from './listed.js';

interface Column {
  title: string;
  right?: true;
  cell: (listed: Listed) => string;
}

const NONE = '-';

const COLUMNS: readonly Column[] = [
  { title: 'id', cell: ({ id }) => id },
  { title: 'kind', cell: ({ kind }) => kind ?? NONE },
  { title: 'state', cell: ({ state }) => state },
  { title: 'started (UTC)', cell: ({ started_ms }) => timeText(started_ms) },
  { title: 'valid', right: true, cell: validText },
  { title: 'failed', right: true, cell: ({ failed }) => numberText(failed) },
  { title: 'mean reward', right: true, cell: ({ mean_reward }) => mean_reward?.toFixed(3) ?? NONE },
];

/** A table of batches and streams; `others` are not shown. */
export function listTable(
  shown: readonly Listed[],
  { others, style }: { others: number; style: TextStyle },
): string[] {
  if (shown.length === 0) return ['no batches and no streams'];
  const [titles = '', ...rows] = inColumns(
    [
      COLUMNS.map(({ title }) => title),
      ...shown.map((one) => COLUMNS.map(({ cell }) => cell(one))),
    ],
    (at) => COLUMNS[at]?.right === true,
  ).map((line) => line.trimEnd());
  const lines: Line[] = [
    [{ text: titles, ink: 'dim' }],
    ...rows.map((text, at): Line => {
      const listed = shown[at];
      return listed !== undefined && isOpen(listed) ? [{ text, ink: 'bold' }] : [text];
    }),
    ...(others === 0 ? [] : [[`${formatNumber(others)} older ones: --limit N shows more`]]),
  ];
  return lines.map((line) => renderLine(line, style));
}

function validText({ valid, requested, steps }: Listed): string {
  if (steps !== null) return `${formatNumber(steps)} ${steps === 1 ? 'step' : 'steps'}`;
  return valid === null ? NONE : `${formatNumber(valid)} of ${numberText(requested)}`;
}

const numberText = (value: number | null): string => (value === null ? NONE : formatNumber(value));

/** To the minute. */
const timeText = (ms: number | null): string =>
  ms === null ? NONE : new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
