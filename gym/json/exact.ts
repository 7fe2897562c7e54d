import { foldJson } from '../../src/platform/json/fold.js';
import { KeptJson, writeJson } from '../../src/platform/json/kept.js';
import type { Members } from '../../src/platform/json/members.js';
import { inOrder } from '../../src/platform/json/order.js';

/**
 * JSON whose numbers keep their text and whose names keep their order (`order.ts`). NeMo Gym's rows and results pass
 * through here unchanged, including `9007199254740993` and `1.0` (a float in Python).
 */
export type Json = null | boolean | string | KeptJson | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

/** Short numbers such as token ids repeat: one shared object for equal ones takes a tenth of the memory. */
const SHORT_DIGITS = 6;

/** Throws a SyntaxError that names the place. The last value of a repeated key wins. */
export function parseJson(text: string): Json {
  const known = new Map<string, KeptJson>();
  return foldJson<Json>(text, {
    string: (value) => value,
    number: (digits) => {
      const before = known.get(digits);
      if (before !== undefined) return before;
      const number = new KeptJson(digits);
      if (digits.length <= SHORT_DIGITS) known.set(digits, number);
      return number;
    },
    word: (value) => value,
    list: (items) => items,
    object: (members) =>
      inOrder(Object.fromEntries(members), new Set(members.map(([name]) => name))),
  });
}

/** One line, without spaces. */
export const formatJson: (value: Json) => string = writeJson;

export const isNumber = (value: unknown): value is KeptJson => value instanceof KeptJson;

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isNumber(value);

/** The value with each of its items or members replaced; one that has none as it is. */
export function mapItems(value: Json, of: (item: Json, key: string) => Json): Json {
  if (Array.isArray(value)) return value.map((item, index) => of(item, String(index)));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, of(item, key)]));
}

/** The objects in a list; none where it is no list. */
export const objectsIn = (value: Json | undefined): JsonObject[] =>
  Array.isArray(value) ? value.filter(isObject) : [];

/** The nearest double, or null if it is not a number. */
export const numberOf = (value: Json | undefined): number | null =>
  isNumber(value) ? Number(value.text) : null;

export const jsonNumber = (value: number): KeptJson => new KeptJson(String(value));

/** A member of an object one level deep. */
export function valueIn(members: Members, name: string): Json | undefined {
  const text = members.get(name);
  return text === undefined ? undefined : parseJson(text);
}

/** The number that a JSON text is; booleans are numbers, as in Python. null: it is none. */
export function numberIn(text = ''): number | null {
  if (text === 'true' || text === 'false') return Number(text === 'true');
  return /^-?\d/.test(text) ? Number(text) : null;
}
