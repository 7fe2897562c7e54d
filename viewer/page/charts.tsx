import type { ComponentChildren, JSX } from 'preact';
import { hrefOf } from './address.js';
import type { Row } from './rows.js';
import { withCondition } from './rows.js';
import type { Bin, Fate } from './sums.js';
import { FATES, fateOf, grouped, histogram, meanOf } from './sums.js';
import { decimal, plural, seconds, tick, whole } from './words.js';

const WIDTH = 320;
const HEIGHT = 150;
const LEFT = 40;
const BOTTOM = 130;
const TOP = 8;
/** More groups than a chart has columns for, and rollouts than it has lines for, are thinned out evenly. */
const MOST_GROUPS = 260;
const MOST_RAN = 60;
/** A bar of a single value. */
const WIDEST = 28;

interface Shown {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
}

/** Plain SVG; what a bar stands for is a link to the rollouts behind it. */
export function Charts({
  children,
  ...shown
}: Shown & {
  /** What comes first. */
  children: ComponentChildren;
}): JSX.Element {
  const { rows } = shown;
  return (
    <div class="charts">
      {children}
      <Histogram
        {...shown}
        title="Rewards"
        field="reward"
        values={rows.flatMap(({ reward }) => reward ?? [])}
      />
      <Scatter {...shown} />
      <Groups {...shown} />
      <Histogram
        {...shown}
        title="Tokens"
        field="tokens"
        values={rows.map(({ tokens }) => tokens)}
      />
      <Histogram
        {...shown}
        title="Characters of the longest observation"
        field="observation"
        values={rows.flatMap(({ facts }) => facts?.longest_observation ?? [])}
      />
      <Waterfall rows={rows} />
    </div>
  );
}

/** Words below an axis. */
interface Mark {
  text: string;
  at: number;
  anchor?: 'start' | 'end';
}

/** The ends of what an axis shows; where they are the same, it is in the middle. */
export const endMarks = ([low = '', high = '']: readonly string[]): Mark[] =>
  low === high
    ? [{ text: low, at: (LEFT + WIDTH) / 2 }]
    : [
        { text: low, at: LEFT, anchor: 'start' },
        { text: high, at: WIDTH - 2, anchor: 'end' },
      ];

/** Axes with the ends of what they show. */
export function Frame({
  title,
  summary,
  x,
  y,
  children,
}: {
  title: string;
  summary: string;
  x: readonly Mark[];
  y: [string, string];
  children: ComponentChildren;
}): JSX.Element {
  return (
    <figure class="chart">
      <figcaption>
        {title} <span class="quiet">{summary}</span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label={`${title}: ${summary}`}>
        <path class="axis" d={`M${LEFT} ${TOP}V${BOTTOM}H${WIDTH}`} />
        <text x={LEFT - 4} y={y[0] === y[1] ? (TOP + BOTTOM) / 2 + 3 : BOTTOM} text-anchor="end">
          {y[0]}
        </text>
        {y[0] !== y[1] && (
          <text x={LEFT - 4} y={TOP + 8} text-anchor="end">
            {y[1]}
          </text>
        )}
        {x.map(({ text, at, anchor = 'middle' }) => (
          <text key={at} x={at} y={BOTTOM + 13} text-anchor={anchor}>
            {text}
          </text>
        ))}
        {children}
      </svg>
    </figure>
  );
}

/** From values to places on an axis. */
export function scales(
  xs: readonly number[],
  ys: readonly number[],
): {
  x: (value: number) => number;
  y: (value: number) => number;
  ends: Record<'x' | 'y', [number, number]>;
} {
  const ends = { x: endsOf(xs), y: endsOf(ys) };
  const part = (value: number, [low, high]: [number, number]): number =>
    high === low ? 0.5 : (value - low) / (high - low);
  return {
    x: (value) => LEFT + 6 + part(value, ends.x) * (WIDTH - LEFT - 12),
    y: (value) => BOTTOM - 5 - part(value, ends.y) * (BOTTOM - TOP - 10),
    ends,
  };
}

const endsOf = (values: readonly number[]): [number, number] =>
  values.reduce<[number, number]>(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    [values[0] ?? 0, values[0] ?? 0],
  );

function Histogram({
  title,
  field,
  values,
  run,
  options,
}: Shown & { title: string; field: string; values: readonly number[] }): JSX.Element | null {
  const bins = histogram(values);
  const [first, last] = [bins[0], bins.at(-1)];
  if (first === undefined || last === undefined) return null;
  const most = bins.reduce((a, { count }) => Math.max(a, count), 0);
  const step = (WIDTH - LEFT) / bins.length;
  const isFew = first.from === first.to;
  const wide = Math.max(0.5, Math.min(step - 1, isFew ? WIDEST : step));
  return (
    <Frame
      title={title}
      summary={`mean ${decimal(meanOf(values))} of ${plural(values.length, 'rollout')}`}
      x={isFew ? valueMarks(bins) : endMarks([first.from, last.to].map(tick))}
      y={['0', whole(most)]}
    >
      {bins.map((bin, index) => {
        const height = bin.count === 0 ? 0 : Math.max(1, (bin.count / most) * (BOTTOM - TOP));
        const where = whereOf(options['where'] ?? '', { field, bin });
        const label = `${rangeOf(bin)}: ${plural(bin.count, 'rollout')}`;
        return (
          bin.count > 0 && (
            <a
              key={index}
              href={hrefOf({ run, options: { ...options, where } })}
              aria-label={label}
            >
              <rect
                class="reach"
                x={LEFT + index * step}
                y={TOP}
                width={step}
                height={BOTTOM - TOP}
              >
                <title>{label}</title>
              </rect>
              <rect
                class="bar"
                x={LEFT + (index + 0.5) * step - wide / 2}
                y={BOTTOM - height}
                width={wide}
                height={height}
              >
                <title>{label}</title>
              </rect>
            </a>
          )
        );
      })}
    </Frame>
  );
}

/** Below bars of single values, which are no scale. */
const valueMarks = (bins: readonly Bin[]): Mark[] =>
  bins.map(({ from }, index) => ({
    text: tick(from),
    at: LEFT + ((index + 0.5) * (WIDTH - LEFT)) / bins.length,
  }));

const rangeOf = ({ from, to }: Bin): string =>
  from === to ? decimal(from) : `${decimal(from)} to ${decimal(to)}`;

function whereOf(where: string, { field, bin }: { field: string; bin: Bin }): string {
  const { from, to } = bin;
  if (from === to) return withCondition(where, { field, value: from });
  const low = withCondition(where, { field, sign: '>=', value: from });
  return withCondition(low, { field, sign: '<', value: to });
}

/** Reward over length: an empty answer that is paid stands at the upper left. Dots grow with their number. */
function Scatter({ rows }: Shown): JSX.Element | null {
  const points = rows.flatMap(({ reward, facts }) =>
    reward === null || facts === null ? [] : [{ x: facts.characters, y: reward }],
  );
  if (points.length === 0) return null;
  const { x, y, ends } = scales(
    points.map((point) => point.x),
    points.map((point) => point.y),
  );
  const dots = new Map<string, { x: number; y: number; count: number }>();
  for (const point of points) {
    const at = { x: Math.round(x(point.x) / 5) * 5, y: Math.round(y(point.y) / 5) * 5 };
    const key = `${at.x} ${at.y}`;
    dots.set(key, { ...at, count: (dots.get(key)?.count ?? 0) + 1 });
  }
  return (
    <Frame
      title="Reward over characters"
      summary={`of all answers of ${plural(points.length, 'rollout')}`}
      x={endMarks(ends.x.map(whole))}
      y={ends.y.map(tick) as [string, string]}
    >
      {[...dots.values()].map((dot) => (
        <circle
          key={`${dot.x} ${dot.y}`}
          class="dot"
          cx={dot.x}
          cy={dot.y}
          r={Math.min(7, 1.2 + Math.sqrt(dot.count) * 0.6)}
        >
          <title>{plural(dot.count, 'rollout')}</title>
        </circle>
      ))}
    </Frame>
  );
}

/** A column for each group, by its mean: its members' rewards, and a line from the worst to the best. */
function Groups({ run, rows, options }: Shown): JSX.Element | null {
  const groups = [...grouped(rows, ({ row }) => [row])]
    .map(([row, members]) => ({ row, rewards: members.flatMap(({ reward }) => reward ?? []) }))
    .filter(({ rewards }) => rewards.length > 0)
    .map((group) => ({ ...group, mean: meanOf(group.rewards) ?? 0 }))
    .sort((a, b) => a.mean - b.mean);
  const some = thinned(groups, MOST_GROUPS);
  if (some.length < 2) return null;
  const { x, y, ends } = scales(
    some.map((_, index) => index),
    some.flatMap(({ rewards }) => rewards),
  );
  return (
    <Frame
      title="Rewards of groups"
      summary={`${plural(groups.length, 'group')}${some.length < groups.length ? `, ${whole(some.length)} of them drawn` : ''}: a line from worst to best, a dot at the mean`}
      x={endMarks(['lowest mean', 'highest mean'])}
      y={ends.y.map(tick) as [string, string]}
    >
      {some.map(({ row, rewards, mean }, index) => {
        const [low, high] = endsOf(rewards);
        return (
          <a
            key={row}
            tabIndex={-1}
            aria-label={`group ${row}`}
            href={hrefOf({ run, row, options: { where: options['where'] ?? '' } })}
          >
            <path class="range" d={`M${x(index)} ${y(low)}V${y(high) - 0.5}`} />
            <circle class="dot" cx={x(index)} cy={y(mean)} r={1.6} />
            <title>{`group ${row}: mean ${decimal(mean)} of ${rewards.length}`}</title>
          </a>
        );
      })}
    </Frame>
  );
}

/**
 * A line for each rollout, from its start to its end, in the order of their start; a short one is two pixels long, and
 * one without an end reaches to the last end of all.
 */
function Waterfall({ rows }: { rows: readonly Row[] }): JSX.Element | null {
  const ran = rows
    .flatMap((row) => {
      const { started_at: from, wall_s } = row;
      return from === null ? [] : [{ from, to: from + (wall_s ?? 0), fate: fateOf(row) }];
    })
    .sort((a, b) => a.from - b.from);
  const some = thinned(ran, MOST_RAN);
  if (some.length < 2) return null;
  const { x, y, ends } = scales(
    ran.flatMap(({ from, to }) => [from, to]),
    [0, some.length - 1],
  );
  const thickness = Math.min(5, (0.8 * (BOTTOM - TOP)) / some.length);
  const lines = (fate: Fate): string =>
    some
      .map((one, index) => {
        const to = fate === 'unfinished' ? ends.x[1] : one.to;
        return one.fate === fate
          ? `M${x(one.from)} ${y(some.length - 1 - index)}H${Math.max(x(to), x(one.from) + 2)}`
          : '';
      })
      .join('');
  const says: Record<Fate, string> = {
    valid: '',
    failed: ', failed ones red',
    unfinished: ', unfinished ones grey',
  };
  const there = FATES.filter((fate) => some.some((one) => one.fate === fate));
  return (
    <Frame
      title="When rollouts ran"
      summary={`${some.length < ran.length ? `${whole(some.length)}, spread evenly over all starts, of ` : ''}${plural(ran.length, 'rollout')}, each from its start to its end${there.map((fate) => says[fate]).join('')}`}
      x={endMarks(['0 s', seconds(ends.x[1] - ends.x[0])])}
      y={['last', 'first']}
    >
      {there.map((fate) => (
        <path key={fate} class={`ran ${fate}`} d={lines(fate)} stroke-width={thickness} />
      ))}
    </Frame>
  );
}

function thinned<T>(all: readonly T[], most: number): T[] {
  const every = Math.max(1, all.length / most);
  return Array.from({ length: Math.ceil(all.length / every) }, (_, index) =>
    all.slice(Math.floor(index * every), Math.floor(index * every) + 1),
  ).flat();
}
