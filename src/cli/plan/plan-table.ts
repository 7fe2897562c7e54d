import { inColumns } from '../../client/text-line.js';
import type { MeasuredBy, Row } from './plan.js';

/** How each figure is measured again. */
export const COMMANDS_OF: Readonly<Record<Exclude<MeasuredBy, null>, string>> = {
  many: 'node --import tsx lab/bench/many/main.ts --figures',
  'stores-turns': 'npm run bench:page -- stores-turns',
};

/** A plan in plain words. */
export function planTable(rows: readonly Row[], { where }: { where: string }): string[] {
  const lines = inColumns(
    [
      ['', '', '', 'measured by'],
      ...rows.map(({ part, what, value, unit, by }, i) => [
        part === rows[i - 1]?.part ? '' : part,
        what,
        amount(value, unit),
        by ?? '-',
      ]),
    ],
    (at) => at === 2,
  );
  return [
    ...lines.map((line) => line.trimEnd()),
    '',
    `Measured with ${where}:`,
    ...Object.entries(COMMANDS_OF).map(([name, command]) => `  ${name.padEnd(14)}${command}`),
  ];
}

const BYTES = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** Three digits: nobody measures more. */
function amount(value: number, unit: string): string {
  if (!unit.startsWith('bytes'))
    return `${short(value)}${unit === '' || unit.startsWith('/') ? unit : ` ${unit}`}`;
  const power = Math.max(0, Math.min(BYTES.length - 1, Math.floor(Math.log10(value || 1) / 3)));
  return `${short(value / 1000 ** power)} ${BYTES[power] ?? ''}${unit.slice('bytes'.length)}`;
}

function short(value: number): string {
  if (value >= 1000) return Math.round(Number(value.toPrecision(3))).toLocaleString('en-US');
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)));
}
