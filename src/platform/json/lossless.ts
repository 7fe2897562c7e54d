import { isLosslessNumber, LosslessNumber, parse, stringify } from 'lossless-json';

/**
 * JSON whose numbers keep their text. NeMo Gym's rows and results pass through here unchanged, including
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
  const known = new Map<string, LosslessNumber>();
  const parseNumber = (digits: string): LosslessNumber => {
    const before = known.get(digits);
    if (before !== undefined) return before;
    const number = new LosslessNumber(digits);
    if (digits.length <= SHORT_DIGITS) known.set(digits, number);
    return number;
  };
  return parse(text, null, {
    parseNumber,
    onDuplicateKey: ({ newValue }) => newValue,
  }) as Json;
}

/** One line, without spaces. */
export const formatJson = (value: Json): string => stringify(value) ?? 'null';

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

/** The nearest double, or null if it is not a number. */
export const numberOf = (value: Json | undefined): number | null =>
  isLosslessNumber(value) ? Number(value.value) : null;

export const jsonNumber = (value: number): LosslessNumber => new LosslessNumber(String(value));
