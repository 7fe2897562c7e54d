import type { PolicyView } from '../results/answers.js';

/** A hold ends so long after the last sign of life of its process. */
export const HOLD_MS = 5 * 60_000;

/** Times are in milliseconds since 1970. */
export type HoldView = NonNullable<PolicyView['hold']>;

export interface Heard {
  /** When it began to listen: a database that was lost takes nobody's hold. */
  since: number;
  /** The last ones, the newest last. */
  last: HeardOf[];
}

interface HeardOf {
  name: string;
  incarnation: string;
  at: number;
}

/** The last sign of life of a holder. */
export function heardAt(
  { name, incarnation, at }: Pick<HoldView, 'name' | 'incarnation' | 'at'>,
  heard: Heard | undefined,
): number {
  const last = heard?.last.find((one) => one.name === name && one.incarnation === incarnation);
  return Math.max(at, last?.at ?? heard?.since ?? 0);
}

const MOST_HEARD = 8;
const MOST_NAME = 200;

/** After signal `holding`, which anybody may send. */
export function hears(heard: Heard, { news, at }: { news: unknown; at: number }): Heard {
  const { holder } = Object(news) as { holder?: unknown };
  const { name, incarnation } = Object(holder) as Partial<Record<keyof HeardOf, unknown>>;
  if (!isName(name) || !isName(incarnation)) return heard;
  const others = heard.last.filter((one) => one.name !== name || one.incarnation !== incarnation);
  return { ...heard, last: [...others, { name, incarnation, at }].slice(-MOST_HEARD) };
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= MOST_NAME;

export function holdText(
  { name, incarnation, since, took_from }: HoldView,
  { heard_at, now }: { heard_at: number; now: number },
): string {
  const silent = Math.max(0, Math.round((now - heard_at) / 1000));
  const from = took_from === undefined ? '' : `, taken from ${took_from}`;
  const end = now - heard_at < HOLD_MS ? '' : ': its hold is over';
  return `${name} (incarnation ${incarnation}) has held the service since ${new Date(since).toISOString().slice(0, 19)}Z${from}; last heard ${silent} s ago${end}`;
}
