import type { Line, TextStyle } from '../../../src/client/text-line.js';
import { progressBar } from '../../../src/client/board.js';
import { formatClock, formatNumber, formatRate } from '../../../src/client/number-text.js';
import { renderLine, spread } from '../../../src/client/text-line.js';
import { plainLine } from '../../../src/platform/plain.js';
import { rolloutName } from '../../row.js';
import type { RunningRow } from './follower.js';
import type { AgentTally, Tally } from './tally.js';
import { meansOf } from './tally.js';

/** What a running collection shows. */
export interface CollectionView {
  title: string;
  tally: Tally;
  running: readonly RunningRow[];
  elapsedS: number;
  /** Seconds since the epoch, for the ages of stragglers. */
  nowS: number;
  /** What it waits for, for people. */
  notes: readonly string[];
}

const STRAGGLERS = 3;
const AGENTS_SHOWN = 4;
const MEANS_SHOWN = 5;

/** The live board of a terminal. */
export function renderCollection(view: CollectionView, style: TextStyle): string[] {
  const { title, tally, elapsedS, running } = view;
  const { total, done, failed, cached } = tally;
  const { columns } = style;
  const before = cached === 0 ? '' : `, ${formatNumber(cached)} from before`;
  const lines: Line[] = [
    spread([{ text: title, ink: 'bold' }], { line: [formatClock(elapsedS)], columns }),
    progressBar({ done, total, etaS: etaSeconds(view), note: before }, style),
    [
      `running ${formatNumber(running.length)}   `,
      { text: `failed ${formatNumber(failed)}`, ink: failed > 0 ? 'red' : 'dim' },
      `   ${formatRate(perMinute(view))} rollouts/min`,
    ],
    ...meansLines(tally),
    ...stragglers(view).map((text): Line => [{ text, ink: 'dim' }]),
    ...view.notes.map((text): Line => [{ text, ink: 'yellow' }]),
  ];
  return lines.map((line) => renderLine(line, style));
}

const byName = ({ agents }: Tally): [string, AgentTally][] =>
  [...agents].toSorted(([a], [b]) => (a < b ? -1 : 1));

const meansLines = (tally: Tally): Line[] =>
  byName(tally)
    .slice(0, AGENTS_SHOWN)
    .map(([name, agent]): Line => {
      const means = meansOf(agent)
        .slice(0, MEANS_SHOWN)
        .map(([key, mean]) => `${key} ${meanText(mean)}`);
      const count = `${formatNumber(agent.done)}/${formatNumber(agent.total)}`;
      return [`${name} ${count}   ${means.join('   ')}`];
    });

/** About four digits, so that a mean of bytes or times does not push others off the line. */
const meanText = (mean: number): string =>
  Math.abs(mean) < 1e6 ? formatNumber(mean) : mean.toPrecision(4).replace('e+', 'e');

/** The rows that have been playing longest. */
function stragglers({ running, nowS }: CollectionView): string[] {
  return running.slice(0, STRAGGLERS).map(({ row, since, attempt }) => {
    const age = ageText(Math.max(0, nowS - since));
    return `${row.agent} ${rolloutName(row.key)} for ${age}, attempt ${formatNumber(attempt + 1)}`;
  });
}

/** A line for each agent whose rows wait for its server, with the text of the first row. */
export function absentAgents(running: readonly RunningRow[]): string[] {
  const absent = new Map<string, string>();
  for (const { row, waiting } of running) {
    if (waiting !== null && !absent.has(row.agent)) absent.set(row.agent, waiting);
  }
  return [...absent].map(([agent, waiting]) => `waiting for ${agent}: ${waiting}`);
}

/** `45s`, `12m`, `3h 05m`. */
function ageText(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return `${Math.round(seconds)}s`;
  return minutes < 60 ? `${minutes}m` : `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
}

const two = (value: number): string => String(value).padStart(2, '0');

export const perMinute = ({ tally, elapsedS }: CollectionView): number =>
  elapsedS === 0 ? 0 : (60 * tally.done) / elapsedS;

export function etaSeconds({ tally: { done, total }, elapsedS }: CollectionView): number | null {
  const few = Math.min(5, total / 10);
  if (done === 0 || done < few || done === total) return null;
  return ((total - done) * elapsedS) / done;
}

/** The status of a log: upstream's text, with the longest rows. */
export function renderStatus(view: CollectionView): string {
  const { tally, elapsedS } = view;
  const { done, total } = tally;
  const percent = Math.trunc((100 * done) / total);
  const failed = tally.failed === 0 ? '' : `${formatNumber(tally.failed)} failed. `;
  const longest = stragglers(view);
  return [
    `Finished ${done} / ${total} rollouts (${percent}%) in ${clock(elapsedS)} (${perMinute(view).toFixed(2)} rollouts/min). ${failed}Examples left:`,
    ...left(tally),
    ...agentStatus(tally),
    ...(longest.length === 0 ? [] : [`Longest running: ${longest.join('; ')}`]),
    ...view.notes.map(plainLine),
  ].join('\n');
}

/** As Python writes a `timedelta`. */
function clock(seconds: number): string {
  const whole = Math.trunc(seconds);
  const days = Math.floor(whole / 86_400);
  const day = days === 0 ? '' : `${days} day${days === 1 ? '' : 's'}, `;
  const h = Math.floor(whole / 3600) % 24;
  return `${day}${h}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

const left = ({ agents }: Tally): string[] =>
  [...agents]
    .flatMap(([name, { total, done }]) => (done < total ? [{ name, count: total - done }] : []))
    .toSorted((a, b) => b.count - a.count)
    .map(({ name, count }, i) => `${i + 1}. ${name}: ${count}`);

const agentStatus = (tally: Tally): string[] =>
  byName(tally)
    .filter(([, { done }]) => done > 0)
    .map(([name, agent]) => {
      const percent = ((100 * agent.done) / agent.total).toFixed(2);
      const means = JSON.stringify(Object.fromEntries(meansOf(agent)), null, 4);
      return `Found ${agent.done} / ${agent.total} (${percent}%) rollouts for \`${name}\`.\n${means}`;
    });

/** Whether a status is due: at each whole percent reached since the last one, and at 99.5. */
export function createPercents(): (tally: Pick<Tally, 'done' | 'total'>) => boolean {
  let reached = 0;
  return ({ done, total }) => {
    const percent = total === 0 ? 0 : (100 * done) / total;
    const step = percent >= 99.5 ? 99.5 : Math.trunc(percent);
    if (step <= reached) return false;
    reached = step;
    return true;
  };
}
