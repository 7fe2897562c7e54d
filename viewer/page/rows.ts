import type { Fields } from '../../src/client/show/conditions.js';
import { NUMBERS, TEXTS, parseConditions } from '../../src/client/show/conditions.js';
import type { Hit, RolloutEntry, RolloutFacts, StepEntry } from '../documents.js';

/** A line of the list; its facts come after the list. */
export interface Row extends RolloutEntry {
  facts: RolloutFacts | null;
  /** Of a stream: the closed step that took it. */
  step: number | null;
}

export const keyOf = ({ row, repeat }: { row: number; repeat: number }): string =>
  `${row}-${repeat}`;

export function joined(
  entries: readonly RolloutEntry[],
  { facts, steps }: { facts: readonly RolloutFacts[]; steps: readonly StepEntry[] },
): Row[] {
  const known = new Map(facts.map((one) => [keyOf(one), one]));
  const stepOf = new Map(steps.flatMap(({ step, groups }) => groups.map((row) => [row, step])));
  return entries.map((entry) => ({
    ...entry,
    facts: known.get(keyOf(entry)) ?? null,
    step: stepOf.get(entry.row) ?? null,
  }));
}

/** Entries that changed take the place of those before them; new ones come last. */
export function changed(
  before: readonly RolloutEntry[],
  news: readonly RolloutEntry[],
): RolloutEntry[] {
  const all = new Map(before.map((entry) => [keyOf(entry), entry]));
  for (const entry of news) all.set(keyOf(entry), entry);
  return [...all.values()];
}

/** Hits in rollouts of these keys alone. */
export const hitsAmong = (hits: readonly Hit[], keys: ReadonlySet<string>): Hit[] =>
  hits.filter((hit) => keys.has(keyOf(hit)));

const named = (version: string | null): string => version ?? 'none';

/** What the filter may name: what `--where` may, and facts. */
export const fieldsOf = (parts: readonly string[]): Fields<Row> => ({
  what: 'filter',
  numbers: {
    ...NUMBERS,
    step: ({ step }) => step,
    characters: ({ facts }) => facts?.characters ?? null,
    prompt: ({ facts }) => facts?.prompt_tokens ?? null,
    logprob: ({ facts }) => facts?.mean_logprob ?? null,
    observation: ({ facts }) => facts?.longest_observation ?? null,
    ...Object.fromEntries(
      parts.map((name) => [`rewards.${name}`, ({ facts }: Row) => facts?.rewards[name] ?? null]),
    ),
  },
  texts: {
    ...TEXTS,
    answer: ({ facts }) => facts?.answer ?? null,
    replica: ({ facts }) => facts?.replicas ?? null,
    version: ({ facts }) => facts?.versions.map(named) ?? null,
    finish: ({ facts }) => facts?.finish_reasons ?? null,
    fault: ({ facts }) => facts?.fault_types ?? null,
    tool: ({ facts }) => facts?.tools ?? null,
  },
});

export const partsOf = (rows: readonly Row[]): string[] =>
  [...new Set(rows.flatMap(({ facts }) => Object.keys(facts?.rewards ?? {})))].sort();

export const filterOf = (where: string, parts: readonly string[]): ((row: Row) => boolean) =>
  where.trim() === '' ? () => true : parseConditions(where, fieldsOf(parts));

export interface Condition {
  field: string;
  sign?: string;
  value: string | number;
}

/** One more condition; a value is quoted by what it does not hold. */
export function withCondition(where: string, { field, sign = '=', value }: Condition): string {
  const text = typeof value === 'number' ? String(value) : quotedBy(value);
  const added = `${field}${sign}${text}`;
  const has = where.split(/\s+and\s+/).includes(added);
  return where.trim() === '' || has ? (has ? where : added) : `${where.trim()} and ${added}`;
}

const quotedBy = (value: string): string =>
  /^[\w./:-]+$/.test(value) ? value : value.includes('"') ? `'${value}'` : `"${value}"`;

const COLUMNS = {
  rollout: ({ row, repeat }) => row + repeat / 1e6,
  task: ({ task_name }) => task_name,
  ended: ({ ended }) => ended,
  reward: ({ reward }) => reward,
  turns: ({ turns }) => turns,
  tokens: ({ tokens }) => tokens,
  characters: ({ facts }) => facts?.characters ?? null,
  logprob: ({ facts }) => facts?.mean_logprob ?? null,
  wall: ({ wall_s }) => wall_s,
  attempts: ({ attempts }) => attempts,
  faults: ({ faults }) => faults,
  answer: ({ facts }) => facts?.answer ?? null,
} as const satisfies Record<string, (row: Row) => number | string | null>;
export type Column = keyof typeof COLUMNS;

export const needsFacts = (sort: string): boolean => /^-?(?:characters|logprob|answer)$/.test(sort);

export const sorted = (rows: readonly Row[], sort: string): Row[] =>
  sortedBy(rows, { sort, values: COLUMNS });

/**
 * `reward`, or `-reward` for the largest first; an unknown name sorts by `rollout`, and so are equal ones. Those without
 * the value come last.
 */
export function sortedBy<R>(
  rows: readonly R[],
  { sort, values }: { sort: string; values: Record<string, Value<R>> },
): R[] {
  const column = sort.replace(/^-/, '');
  const placeOf = values['rollout'] ?? (() => 0);
  const valueOf = (Object.hasOwn(values, column) ? values[column] : undefined) ?? placeOf;
  const sign = sort.startsWith('-') ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: valueOf(row), place: placeOf(row) }));
  keyed.sort(
    (a, b) =>
      Number(a.key === null) - Number(b.key === null) ||
      sign * order(a.key, b.key) ||
      order(a.place, b.place),
  );
  return keyed.map(({ row }) => row);
}

type Value<R> = (row: R) => number | string | null;

const order = (a: number | string | null, b: number | string | null): number =>
  a === null || b === null || a === b ? 0 : a < b ? -1 : 1;
