import type { BatchResult, Counts } from '../activities/contract.js';
import type { Failures } from '../model/results/answers.js';
import { failureTexts } from '../model/workflow-safe/failures.js';
import { nearPath } from '../platform/near-path.js';
import { plainLine } from '../platform/plain.js';
import { formatNumber } from './number-text.js';
import type { Line, TextStyle } from './text-line.js';
import { inColumns, renderLine } from './text-line.js';
import { widthOf } from './text-width.js';

/** Groups of metrics, in this order; metrics without a pattern come last. */
const GROUPS: readonly [string, RegExp][] = [
  ['Reward', /reward|success/],
  ['Groups', /^(group\/|pass@|avg@)/],
  ['Turns', /turns/],
  ['Tokens', /tokens/],
  ['Weights', /^versions\//],
  ['How rollouts ended', /^stop_reason\/|^replaced\/count$|_rate$/],
  ['Seconds per rollout', /_s\/|^span_s$/],
  ['Faults of all tries', /^faults\/|^attempts/],
];
/** Rates that end with `_rate` or `_per_s` also concern turns and tokens; these belong to their own groups. */
const KIND_FIRST = /^(stop_reason\/|max_turns_reached_rate$)/;

const MOST_FAILURES = 2;

/** The outcome of a batch: the metrics in groups, one line of counts, why most failed, the files. */
export function renderResult(
  result: BatchResult & { failures?: Failures | undefined },
  style: TextStyle,
): string[] {
  const { counts, metrics, files, failures, notes = [] } = result;
  const lines: Line[] = [
    ...metricGroups(metrics).flatMap(([title, entries]): Line[] => [
      [{ text: title, ink: 'bold' }],
      ...columnsOf(entries, style.columns),
      [],
    ]),
    // Below the table, because a terminal shows the end of the output.
    [{ text: countsText(counts), ink: allCompleted(counts) ? 'green' : 'red' }],
  ];
  return [
    ...lines.map((line) => renderLine(line, style)),
    // None is cut: a cause is read to its end, and files are copied.
    ...notes.map((note) =>
      renderLine([{ text: `  ${note}`, ink: 'yellow' }], { ...style, columns: Infinity }),
    ),
    ...failureTexts(failures)
      .slice(0, MOST_FAILURES)
      .map((text) => `  ${plainLine(text)}`),
    ...Object.entries(files).map(
      ([name, file]) => `  ${name.padEnd(10)}${plainLine(nearPath(file))}`,
    ),
  ];
}

export const allCompleted = ({ completed, requested }: Counts): boolean => completed === requested;

function countsText(counts: Counts): string {
  const others = (['failed', 'timed_out', 'stopped', 'cancelled'] as const)
    .filter((ending) => counts[ending] > 0)
    .map((ending) => `${formatNumber(counts[ending])} ${ending.replace('_', ' ')}`);
  const [completed, requested] = [counts.completed, counts.requested].map(formatNumber);
  return [`${completed} of ${requested} rollouts completed`, ...others].join(', ');
}

type Entry = readonly [name: string, value: number];

function metricGroups(metrics: Record<string, number>): [string, Entry[]][] {
  const groups = new Map<string, Entry[]>(
    [...GROUPS.map(([title]) => title), 'Other'].map((title) => [title, []]),
  );
  for (const entry of Object.entries(metrics)) groups.get(groupOf(entry[0]))?.push(entry);
  return [...groups].filter(([, entries]) => entries.length > 0);
}

function groupOf(name: string): string {
  if (KIND_FIRST.test(name)) return 'How rollouts ended';
  return GROUPS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'Other';
}

const GAP = '    ';

/** Two columns if the terminal is wide enough, read downwards. */
function columnsOf(entries: readonly Entry[], columns: number): Line[] {
  const half = Math.ceil(entries.length / 2);
  const [left, right] = [alignedCells(entries.slice(0, half)), alignedCells(entries.slice(half))];
  const isWideEnough = 2 + widthOf(left[0] ?? '') + GAP.length + widthOf(right[0] ?? '') <= columns;
  if (!isWideEnough || right.length === 0)
    return alignedCells(entries).map((cell) => [`  ${cell}`]);
  return left.map((cell, index) => {
    const beside = right[index];
    return [`  ${cell}${beside === undefined ? '' : GAP + beside}`];
  });
}

/** Names to the left, values to the right, all of the same length. */
function alignedCells(entries: readonly Entry[]): string[] {
  const cells = entries.map(([name, value]) => [name, formatNumber(value)]);
  return inColumns(cells, (at) => at === 1);
}
