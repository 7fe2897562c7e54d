import type { Entry } from './entry.js';

export type Condition = (entry: Entry) => boolean;

/** What conditions may name. Of texts that are a list, `=` holds for one of them, `!=` for all. */
export interface Fields<E> {
  /** Where the conditions stand, for messages. */
  what: string;
  numbers: Record<string, (entry: E) => number | null>;
  texts: Record<string, (entry: E) => string | null | readonly string[]>;
}

/** What all lists have. A browser reads this file, too, so it imports types alone. */
type Listed = Pick<
  Entry,
  'reward' | 'tokens' | 'turns' | 'wall_s' | 'attempts' | 'faults' | 'row' | 'repeat' | 'task_name'
> & { ended: string | null; failure: { type: string } | null };

export const NUMBERS = {
  reward: ({ reward }) => reward,
  length: ({ tokens }) => tokens,
  tokens: ({ tokens }) => tokens,
  turns: ({ turns }) => turns,
  wall: ({ wall_s }) => wall_s,
  attempts: ({ attempts }) => attempts,
  faults: ({ faults }) => faults,
  row: ({ row }) => row,
  repeat: ({ repeat }) => repeat,
} as const satisfies Record<string, (entry: Listed) => number | null>;

export const TEXTS = {
  /** A stop reason, or `unfinished`. */
  ended: ({ ended }) => ended ?? 'unfinished',
  task: ({ task_name }) => task_name,
  /** Its type. */
  failure: ({ failure }) => failure?.type ?? null,
} as const satisfies Record<string, (entry: Listed) => string | null>;

const COMPARE: Record<string, (a: number, b: number) => boolean> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
};

/** Field, operator, value and what joins the next one. A joining word inside quotes joins nothing. */
const CONDITION =
  /^\s*([a-z_]+(?:\.[^\s<>=!]+)?)\s*(<=|>=|!=|==?|<|>)\s*(?:(["'])(.*?)\3|(.+?))(?:(\s+and\s+|\s*&&)|\s*$)/s;
/** A condition inside a value without quotes, which nothing joins to the one before. */
const NEXT = /\s[a-z_.]+\s*[<>=!]/;

export const parseWhere = (text: string): Condition =>
  parseConditions(text, { what: '--where', numbers: NUMBERS, texts: TEXTS });

/** Joined by ` and `. A missing value meets no condition. Throws an error that says what was expected. */
export function parseConditions<E>(text: string, fields: Fields<E>): (entry: E) => boolean {
  const conditions: ((entry: E) => boolean)[] = [];
  for (let left: string | null = text; left !== null;) {
    const found = CONDITION.exec(left);
    if (found === null || NEXT.test(found[5] ?? ''))
      throw wrong(fields.what, {
        got: left.trim(),
        expected: 'FIELD OPERATOR VALUE, joined by and, such as reward<0.5 and turns>=3',
      });
    const [whole, field = '', sign = '', , quoted, bare = '', joint = ''] = found;
    const operator = sign === '==' ? '=' : sign;
    const given = whole.slice(0, whole.length - joint.length).trim();
    conditions.push(conditionOf(fields, { given, field, operator, value: quoted ?? bare }));
    left = joint === '' ? null : left.slice(whole.length);
  }
  return (entry) => conditions.every((holds) => holds(entry));
}

function conditionOf<E>(
  fields: Fields<E>,
  { given, field, operator, value }: Record<'given' | 'field' | 'operator' | 'value', string>,
): (entry: E) => boolean {
  const number = own(fields.numbers, field);
  if (number !== undefined) {
    const compare = COMPARE[operator];
    const wanted = Number(value);
    if (compare === undefined || Number.isNaN(wanted))
      throw wrong(fields.what, { got: given, expected: `${field} with a number` });
    return (entry) => {
      const found = number(entry);
      return found !== null && compare(found, wanted);
    };
  }
  const text = own(fields.texts, field);
  if (text === undefined) {
    const names = [...Object.keys(fields.numbers), ...Object.keys(fields.texts)];
    throw wrong(fields.what, { got: given, expected: `one of ${names.join(', ')}` });
  }
  if (operator !== '=' && operator !== '!=')
    throw wrong(fields.what, { got: given, expected: `${field}= or ${field}!=` });
  return (entry) => {
    const found = [text(entry) ?? []].flat();
    return found.length > 0 && found.includes(value) === (operator === '=');
  };
}

const own = <V>(of: Record<string, V>, name: string): V | undefined =>
  Object.hasOwn(of, name) ? of[name] : undefined;

const wrong = (what: string, { got, expected }: { got: string; expected: string }): Error =>
  new Error(`${what}: expected ${expected}, got ${JSON.stringify(got)}`);
