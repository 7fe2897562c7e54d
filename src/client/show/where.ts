import type { Entry } from './entry.js';

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
const CONDITION = /^([a-z_]+)\s*(<=|>=|!=|==?|<|>)\s*(.+)$/;
const AND = /(\s+and\s+|&&)/;
/** A condition whose quoted value does not end here. */
const OPEN = /^\s*[a-z_]+\s*[<>=!]+\s*(?:"[^"]*|'[^']*)$/;
const QUOTED = /^(['"])(.*)\1$/;

/**
 * All conditions, joined by ` and `. A missing value (the reward of a rollout without a valid end) meets no condition.
 * Throws an error that says what was expected.
 */
export function parseWhere(text: string): Condition {
  const conditions = partsOf(text).map((part) => parseCondition(part.trim()));
  return (entry) => conditions.every((holds) => holds(entry));
}

/** A joining word inside quotes joins nothing. */
function partsOf(text: string): string[] {
  const parts = [''];
  for (const [at, piece] of text.split(AND).entries()) {
    const last = parts.at(-1) ?? '';
    // Every other one is a joint.
    if (at % 2 === 1 && !OPEN.test(last)) parts.push('');
    else parts[parts.length - 1] = last + piece;
  }
  return parts;
}

function parseCondition(text: string): Condition {
  const [, field = '', sign = '', given = ''] = CONDITION.exec(text) ?? [];
  const value = QUOTED.exec(given)?.[2] ?? given;
  const operator = sign === '==' ? '=' : sign;
  if (field === '') throw wrong(text, 'FIELD OPERATOR VALUE such as reward<0.5');
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
