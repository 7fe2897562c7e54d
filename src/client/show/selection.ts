import type { Entry } from './entry.js';
import { isFailed } from './entry.js';

/** Conditions such as `reward<0.5 and turns>=3` that select rollouts of a list. */
export type Condition = (entry: Entry) => boolean;

const NUMBERS = {
  reward: ({ reward }) => reward,
  length: ({ tokens }) => tokens,
  tokens: ({ tokens }) => tokens,
  turns: ({ turns }) => turns,
  wall: ({ wall_s }) => wall_s,
  attempts: ({ attempts }) => attempts,
  faults: ({ faults }) => faults,
  row: ({ row }) => row,
  repeat: ({ repeat }) => repeat,
} as const satisfies Record<string, (entry: Entry) => number | null>;

const TEXTS = {
  /** A stop reason, or `unfinished`. */
  ended: ({ ended }) => ended ?? 'unfinished',
  task: ({ task_name }) => task_name,
  /** Its type. */
  failure: ({ failure }) => failure?.type ?? null,
} as const satisfies Record<string, (entry: Entry) => string | null>;

const COMPARE: Record<string, (a: number, b: number) => boolean> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
};

const FIELDS = [...Object.keys(NUMBERS), ...Object.keys(TEXTS)];
/** Field, operator, value and what joins the next one. A joining word inside quotes joins nothing. */
const CONDITION =
  /^\s*([a-z_]+)\s*(<=|>=|!=|==?|<|>)\s*(?:(["'])(.*?)\3|(.+?))(?:(\s+and\s+|\s*&&)|\s*$)/s;

/**
 * All conditions, joined by ` and `. A missing value (the reward of a rollout without a valid end) meets no condition.
 * Throws an error that says what was expected.
 */
export function parseWhere(text: string): Condition {
  const conditions: Condition[] = [];
  for (let left: string | null = text; left !== null;) {
    const found = CONDITION.exec(left);
    if (found === null) throw wrong(left.trim(), 'FIELD OPERATOR VALUE such as reward<0.5');
    const [whole, field = '', sign = '', , quoted, bare = '', joint = ''] = found;
    const operator = sign === '==' ? '=' : sign;
    const given = whole.slice(0, whole.length - joint.length).trim();
    conditions.push(conditionOf(given, { field, operator, value: quoted ?? bare }));
    left = joint === '' ? null : left.slice(whole.length);
  }
  return (entry) => conditions.every((holds) => holds(entry));
}

function conditionOf(
  text: string,
  { field, operator, value }: { field: string; operator: string; value: string },
): Condition {
  if (isKey(NUMBERS, field)) {
    const compare = COMPARE[operator];
    const wanted = Number(value);
    if (compare === undefined || Number.isNaN(wanted)) throw wrong(text, `${field} with a number`);
    return (entry) => {
      const found = NUMBERS[field](entry);
      return found !== null && compare(found, wanted);
    };
  }
  if (!isKey(TEXTS, field)) throw wrong(text, `one of ${FIELDS.join(', ')}`);
  if (operator !== '=' && operator !== '!=') throw wrong(text, `${field}= or ${field}!=`);
  return (entry) => {
    const found = TEXTS[field](entry);
    return found !== null && (found === value) === (operator === '=');
  };
}

const isKey = <K extends string>(fields: Record<K, unknown>, name: string): name is K =>
  Object.hasOwn(fields, name);

const wrong = (got: string, expected: string): Error =>
  new Error(`--where: expected ${expected}, got ${JSON.stringify(got)}`);

export const SORTS = ['reward', 'tokens', 'length', 'turns', 'wall'] as const;
type Sort = (typeof SORTS)[number];

/** Which rollouts a list shows, in which order. */
export interface Selection {
  where: Condition;
  /** Only those that ended without a row to train on. */
  failed: boolean;
  /** Those with a reward, then the failed ones, if the limit has room for them: they say why. */
  worst: boolean;
  /** null: in input order. */
  sort: { by: Sort; smallest_first: boolean } | null;
  /** null: all. */
  limit: number | null;
}

/** Rollouts without the value come last; equal ones stay in input order. */
export function select(entries: readonly Entry[], selection: Selection): Entry[] {
  const { where, failed, worst, sort, limit } = selection;
  const chosen = entries.filter(
    (entry) =>
      (!failed || isFailed(entry)) &&
      (!worst || entry.reward !== null || isFailed(entry)) &&
      where(entry),
  );
  chosen.sort((a, b) => a.row - b.row || a.repeat - b.repeat);
  if (sort !== null) {
    const value = NUMBERS[sort.by];
    const sign = sort.smallest_first ? 1 : -1;
    chosen.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return sign * (x - y);
    });
  }
  return limit === null ? chosen : chosen.slice(0, limit);
}
