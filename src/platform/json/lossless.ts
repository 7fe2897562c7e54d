import { isLosslessNumber, LosslessNumber, parse } from 'lossless-json';
import { isDeeperThan, MAX_LEVELS } from './depth.js';
import { firstLoss } from './losses.js';
import { itemsOf, membersOf } from './members.js';
import { entriesOf, inOrder } from './order.js';

/**
 * JSON whose numbers keep their text and whose names keep their order (`order.ts`). NeMo Gym's rows and results pass through here unchanged, including
 * `9007199254740993` and `1.0` (a float in Python).
 */
export type Json = null | boolean | string | LosslessNumber | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

/** Short numbers such as token ids repeat: one shared object for equal ones takes a tenth of the memory. */
const SHORT_DIGITS = 6;

/**
 * Throws a SyntaxError that names the place. `NaN` and `Infinity`, which Python may write, are not JSON. The last value
 * of a repeated key wins.
 */
export function parseJson(text: string): Json {
  const parseNumber = createNumbers();
  const plain = parsePlain(text);
  if (plain !== undefined) return withNumbers(plain, parseNumber);
  const value = parse(text, null, {
    parseNumber,
    onDuplicateKey: ({ newValue }) => newValue,
  }) as Json;
  if (WHOLE_NAME.test(text) && !isDeeperThan(MAX_LEVELS, text)) keepOrder(value, text);
  return value;
}

function createNumbers(): (digits: string) => LosslessNumber {
  const known = new Map<string, LosslessNumber>();
  return (digits) => {
    const before = known.get(digits);
    if (before !== undefined) return before;
    const number = new LosslessNumber(digits);
    if (digits.length <= SHORT_DIGITS) known.set(digits, number);
    return number;
  };
}

type Plain = null | boolean | string | number | Plain[] | { [key: string]: Plain };

/**
 * By the engine's own parser, which is many times faster; undefined: it would lose something, or the text is no JSON,
 * which the other parser says better.
 */
function parsePlain(text: string): Plain | undefined {
  if (WHOLE_NAME.test(text)) return undefined;
  try {
    const value = JSON.parse(text) as Plain;
    return firstLoss(text) === null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** In place: no number of it is written otherwise than JavaScript writes it. */
function withNumbers(value: Plain, numberOf: (digits: string) => LosslessNumber): Json {
  if (typeof value === 'number') return numberOf(String(value));
  if (typeof value !== 'object' || value === null) return value;
  const items = value as Record<string, Plain | Json>;
  for (const name of Object.keys(items)) items[name] = withNumbers(items[name] as Plain, numberOf);
  return items as JsonObject;
}

/** A name that may be a whole number, however its digits are written. */
const WHOLE_NAME = /"[\d\\u]+"\s*:/;

function keepOrder(value: Json, text: string): void {
  if (!WHOLE_NAME.test(text)) return;
  if (Array.isArray(value)) {
    for (const [at, item] of (itemsOf(text) ?? []).entries()) keepOrder(value[at] ?? null, item);
  } else if (isObject(value)) {
    const members = membersOf(text) ?? new Map<string, string>();
    inOrder(value, members.keys());
    for (const [name, member] of members) keepOrder(value[name] ?? null, member);
  }
}

/** One line, without spaces. */
export function formatJson(value: Json): string {
  if (isLosslessNumber(value)) return value.value;
  if (Array.isArray(value)) return `[${value.map(formatJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const parts = entriesOf<Json | undefined>(value).flatMap(([name, item]) =>
    item === undefined ? [] : [`${JSON.stringify(name)}:${formatJson(item)}`],
  );
  return `{${parts.join(',')}}`;
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

/** The nearest double, or null if it is not a number. */
export const numberOf = (value: Json | undefined): number | null =>
  isLosslessNumber(value) ? Number(value.value) : null;

export const jsonNumber = (value: number): LosslessNumber => new LosslessNumber(String(value));
