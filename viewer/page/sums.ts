import type { Row } from './rows.js';
import { partsOf } from './rows.js';

/** What lines of a breakdown say of their rollouts. */
export interface Sum {
  name: string;
  count: number;
  /** Of those with a reward. */
  mean_reward: number | null;
  mean_tokens: number | null;
  truncated: number | null;
  faults: number;
  mean_logprob: number | null;
  mean_turns: number | null;
  /** In characters. */
  longest_observation: number | null;
}

/** Of the rollouts with a reward that have this part of it, zeros too. */
export interface PartSum {
  name: string;
  count: number;
  mean: number;
  min: number;
  max: number;
  above_zero: number;
}

export const meanOf = (values: readonly (number | null)[]): number | null => {
  const there = values.filter((value) => value !== null);
  return there.length === 0 ? null : there.reduce((sum, value) => sum + value, 0) / there.length;
};

export const sumOf = (name: string, rows: readonly Row[]): Sum => ({
  name,
  count: rows.length,
  mean_reward: meanOf(rows.map(({ reward }) => reward)),
  mean_tokens: meanOf(rows.map(({ tokens }) => tokens)),
  truncated: shareOf(rows, ({ ended }) => ended === 'truncated'),
  faults: rows.reduce((sum, { faults }) => sum + faults, 0),
  mean_logprob: meanOf(rows.map(({ facts }) => facts?.mean_logprob ?? null)),
  mean_turns: meanOf(rows.map(({ turns }) => turns)),
  longest_observation: rows.reduce<number | null>(
    (most, { facts }) => (facts === null ? most : Math.max(most ?? 0, facts.longest_observation)),
    null,
  ),
});

/** A reward is that of a valid end. */
export function fatesOf(rows: readonly Row[]): Record<string, number> {
  const of = (fate: Fate): number => rows.filter((row) => fateOf(row) === fate).length;
  return { 'with a reward': of('valid'), failed: of('failed'), unfinished: of('unfinished') };
}

/** What became of a rollout that began. */
export const FATES = ['valid', 'failed', 'unfinished'] as const;
export type Fate = (typeof FATES)[number];

export const fateOf = ({ is_valid, ended }: Row): Fate =>
  is_valid ? 'valid' : ended === null ? 'unfinished' : 'failed';

const shareOf = (rows: readonly Row[], holds: (row: Row) => boolean): number | null => {
  const ended = rows.filter((row) => row.ended !== null);
  return ended.length === 0 ? null : ended.filter(holds).length / ended.length;
};

/** By key, in the order in which keys come; a row may have several. */
export function grouped<K>(rows: readonly Row[], keysOf: (row: Row) => Iterable<K>): Map<K, Row[]> {
  const groups = new Map<K, Row[]>();
  for (const row of rows) {
    for (const key of keysOf(row)) {
      const members = groups.get(key);
      if (members === undefined) groups.set(key, [row]);
      else members.push(row);
    }
  }
  return groups;
}

/** A rollout with several values counts for each of them. The largest first. */
export function breakdown(
  rows: readonly Row[],
  valuesOf: (row: Row) => readonly string[] | string | null,
): Sum[] {
  return [...grouped(rows, (row) => new Set([valuesOf(row) ?? []].flat()))]
    .map(([name, of]) => sumOf(name, of))
    .sort((a, b) => b.count - a.count || byName(a.name, b.name));
}

export const partSums = (rows: readonly Row[]): PartSum[] =>
  partsOf(rows).flatMap((name) => {
    const values = rows.flatMap(({ reward, facts }) =>
      reward === null ? [] : (facts?.rewards[name] ?? []),
    );
    const [first] = values;
    if (first === undefined) return [];
    return {
      name,
      count: values.length,
      mean: meanOf(values) ?? 0,
      min: values.reduce((a, b) => Math.min(a, b), first),
      max: values.reduce((a, b) => Math.max(a, b), first),
      above_zero: values.filter((value) => value > 0).length,
    };
  });

/** Names in the order in which people look for them: 2 before 10. */
export const byName = new Intl.Collator('en', { numeric: true }).compare;

/** As many as can stand side by side with their names. */
const FEW_VALUES = 8;

export interface Bin {
  from: number;
  /** Exclusive. */
  to: number;
  count: number;
}

/** Values that are few have a bin each, whose ends are the value; others are a scale, with bins of a round width. */
export function histogram(values: readonly number[], most = 20): Bin[] {
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const [low, high] = [distinct[0], distinct.at(-1)];
  if (low === undefined || high === undefined) return [];
  const isFew = distinct.length <= FEW_VALUES;
  const width = roundAbove((high - low) / most);
  // Half a digit more, so that 0.29 is in the bin that begins with it.
  const binOf = (value: number): number => (isFew ? value : Math.floor(value / width + 1e-9));
  const counted = new Map<number, number>();
  for (const value of values) counted.set(binOf(value), (counted.get(binOf(value)) ?? 0) + 1);
  if (isFew)
    return distinct.map((value) => ({ from: value, to: value, count: counted.get(value) ?? 0 }));
  const first = binOf(low);
  return Array.from({ length: binOf(high) - first + 1 }, (_, index) => ({
    from: edge((first + index) * width),
    to: edge((first + index + 1) * width),
    count: counted.get(first + index) ?? 0,
  }));
}

/** 1, 2 or 5, times a power of ten. */
export function roundAbove(width: number): number {
  const power = 10 ** Math.floor(Math.log10(width));
  return edge(([1, 2, 5, 10].find((times) => times * power >= width) ?? 10) * power);
}

const edge = (value: number): number => Number(value.toPrecision(12));
