import { isLosslessNumber, LosslessNumber, parse, stringify } from 'lossless-json';

/**
 * JSON whose numbers keep their text: NeMo Gym's rows and results pass through here, and `9007199254740993` and `1.0`
 * (which Python reads as a float) must leave as they came.
 */
export type Json = null | boolean | string | LosslessNumber | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

/** Token ids and the like come again and again: one object for all that are the same takes a tenth of the memory. */
const SHORT_DIGITS = 6;

/** Throws a SyntaxError that names the place; `NaN` and `Infinity`, which Python may write, are no JSON. A key that is given twice has its last value. */
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

/** On one line, without spaces. */
export const formatJson = (value: Json): string => stringify(value) ?? 'null';

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

/** The nearest double; null: it is no number. */
export const numberOf = (value: Json | undefined): number | null =>
  isLosslessNumber(value) ? Number(value.value) : null;

export const jsonNumber = (value: number): LosslessNumber => new LosslessNumber(String(value));
