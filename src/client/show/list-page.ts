import { formatClock, formatNumber } from '../number-text.js';
import type { Column, Line, TextStyle } from '../text-line.js';
import { renderLine, tableOf } from '../text-line.js';
import { widthOf } from '../text-width.js';
import type { Entry } from './entry.js';
import { placeText } from '../../model/workflow-safe/rollout-id.js';
import { isFailed, isValid } from './entry.js';

export interface List {
  batch_id: string;
  /** All that have a journal. */
  entries: readonly Entry[];
  /** The ones to show, in this order. */
  shown: readonly Entry[];
  /** Rollouts that the request asks for, without replacements. */
  requested: number;
  /** Failed ones are counted below it. */
  hides_failed?: boolean;
}

export const LIST_HEAD = 4;
/** A reason with less room than this stands on a line of its own. */
const REASON_COLUMNS = 60;
const INDENT = '    ';

/** A list of rollouts: totals, then a line or two for each. */
export function listPage(list: List, style: TextStyle): string[] {
  const { shown } = list;
  const columns = columnsFor(list);
  const [titles = '', ...rows] = tableOf(columns, shown);
  const ended = shown.reduce((most, entry) => Math.max(most, stateOf(entry).length), ENDED.length);
  const left = style.columns - (widthOf(titles) + 2 + ended + 2);
  const lines: Line[] = [
    ...summary(list),
    [],
    [
      {
        text: `${titles}  ${left < REASON_COLUMNS ? ENDED : `${ENDED.padEnd(ended)}  reason`}`,
        ink: 'dim',
      },
    ],
    ...shown.flatMap((entry, at): Line[] => {
      const line = [rows[at] ?? '', '  ', stateSpan(entry)];
      const { reason } = entry;
      if (reason === null) return [line];
      const why = { text: reason, ink: isFailed(entry) ? ('red' as const) : ('dim' as const) };
      if (left < REASON_COLUMNS) return [line, [INDENT, why]];
      return [[...line, ' '.repeat(ended - stateOf(entry).length + 2), why]];
    }),
    ...notShown(list),
  ];
  return lines.map((line) => renderLine(line, style));
}

const COLUMNS: readonly Column<Entry>[] = [
  { title: 'rollout', cell: placeText },
  { title: 'reward', right: true, cell: (entry) => rewardText(entry) },
  { title: 'turns', right: true, cell: ({ turns }) => formatNumber(turns) },
  { title: 'tokens', right: true, cell: ({ tokens }) => formatNumber(tokens) },
  {
    title: 'wall',
    right: true,
    cell: ({ wall_s }) => (wall_s === null ? '-' : formatClock(wall_s)),
  },
  { title: 'tries', right: true, cell: ({ attempts }) => formatNumber(attempts) },
  {
    title: 'faults',
    right: true,
    cell: ({ faults }) => (faults === 0 ? '' : formatNumber(faults)),
  },
];
const TASK: Column<Entry> = { title: 'task', cell: ({ task_name }) => task_name ?? '-' };

/** Columns with the same value in every line are left out. */
function columnsFor({ entries }: List): readonly Column<Entry>[] {
  const [first] = entries;
  const severalTasks = entries.some(({ task_name }) => task_name !== first?.task_name);
  const hasFaults = entries.some(({ faults }) => faults > 0);
  const columns = hasFaults ? COLUMNS : COLUMNS.filter(({ title }) => title !== 'faults');
  return severalTasks ? [...columns.slice(0, 1), TASK, ...columns.slice(1)] : columns;
}

export const rewardText = ({ reward }: Pick<Entry, 'reward'>): string =>
  reward === null ? '-' : reward.toFixed(3);

const ENDED = 'ended';
const stateOf = ({ ended }: Pick<Entry, 'ended'>): string => ended ?? 'unfinished';

export function stateSpan(entry: Pick<Entry, 'ended'>): Line[number] {
  const text = stateOf(entry);
  if (entry.ended === null) return { text, ink: 'yellow' };
  return isFailed(entry) ? { text, ink: 'red' } : text;
}

function summary({ batch_id, entries, shown, requested }: List): Line[] {
  const valid = entries.filter(isValid);
  const failed = entries.filter(isFailed).length;
  const unfinished = entries.length - valid.length - failed;
  const notStarted = Math.max(0, requested - entries.length);
  const counts: [number, string][] = [
    [valid.length, 'valid'],
    [failed, 'failed'],
    [unfinished, 'unfinished'],
    [notStarted, 'not started'],
  ];
  const said = counts
    .filter(([count], at) => at === 0 || count > 0)
    .map(([count, what]) => `${formatNumber(count)} ${what}`);
  return [
    [
      { text: batch_id, ink: 'bold' },
      `  ${formatNumber(entries.length + notStarted)} rollouts: ${said.join(', ')}`,
    ],
    [
      `mean reward ${valid.length === 0 ? '-' : meanReward(valid).toFixed(3)}`,
      ...(shown.length === entries.length ? [] : [`   ${formatNumber(shown.length)} shown`]),
    ],
  ];
}

function notShown({ entries, hides_failed }: List): Line[] {
  const failed = hides_failed === true ? entries.filter(isFailed).length : 0;
  if (failed === 0) return [];
  return [[], [`${formatNumber(failed)} failed: --failed shows ${failed === 1 ? 'it' : 'them'}`]];
}

const meanReward = (valid: readonly Entry[]): number =>
  valid.reduce((sum, { reward }) => sum + (reward ?? 0), 0) / valid.length;
