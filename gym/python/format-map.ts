import { isObject, type Json, type JsonObject } from '../json/exact.js';
import { formatValue } from './format-spec.js';
import { asciiOf, reprOf, strOf } from './repr.js';

/** A field that the template names and the row lacks: Python's KeyError. */
export class MissingField extends Error {
  readonly field: string;

  constructor(field: string) {
    super(`no field '${field}'`);
    this.field = field;
  }
}

const SUPPORTED =
  "supported are {field}, {field[key]}, {field[0]}, !r, !s and !a behind them, Python's format specifications (:>8, :.2f), and {{ and }} for braces";

/** A specification may contain fields, but those no further ones. */
const DEEPEST = 2;

/**
 * `template.format_map(row)`: top-level fields of the row, `[key]` into their values, conversions, and format
 * specifications with fields. Attributes are refused, because JSON values have none that a prompt could need.
 */
export const formatMap = (template: string, row: JsonObject): string =>
  fill(template, { row, depth: DEEPEST });

interface Filling {
  row: JsonObject;
  depth: number;
}

function fill(template: string, { row, depth }: Filling): string {
  if (depth === 0) throw refused(template, 'a field within a field’s specification has its own');
  let text = '';
  let at = 0;
  while (at < template.length) {
    const character = template.charAt(at);
    if (character !== '{' && character !== '}') {
      const end = template.slice(at).search(/[{}]|$/);
      text += template.slice(at, at + end);
      at += end;
    } else if (template.charAt(at + 1) === character) {
      text += character;
      at += 2;
    } else if (character === '}' || at + 1 === template.length) {
      throw new Error(`Single '${character}' encountered in prompt template: ${SUPPORTED}`);
    } else {
      const field = readField(template, at + 1);
      text += shown(field, { row, depth });
      at = field.end;
    }
  }
  return text;
}

interface Field {
  name: string;
  conversion: string;
  specification: string;
  /** Index after its closing brace. */
  end: number;
}

/** Takes a field apart as CPython does: the name ends at the first `}`, `:` or `!` outside brackets. */
function readField(template: string, start: number): Field {
  let at = afterName(template, start);
  const name = template.slice(start, at);
  let conversion = '';
  const mark = template.charAt(at);
  if (mark === '{') throw refused(name, "'{' in a field's name");
  if (mark === '!') {
    conversion = template.charAt(at + 1);
    at += 2;
  }
  const next = template.charAt(at);
  if (next === '}') return { name, conversion, specification: '', end: at + 1 };
  if (next !== ':') throw refused(template.slice(start), "expected '}' or ':'");
  const end = closingBrace(template, at + 1);
  if (end === null) throw refused(template.slice(at), "a format specification lacks its '}'");
  return { name, conversion, specification: template.slice(at + 1, end), end: end + 1 };
}

function afterName(template: string, start: number): number {
  let at = start;
  while (at < template.length && !'{}:!'.includes(template.charAt(at)))
    at = template.charAt(at) === '[' ? afterBracket(template, at) : at + 1;
  return at;
}

/** The index behind a bracket's closing one; `at` is at the opening one. */
function afterBracket(text: string, at: number): number {
  const close = text.indexOf(']', at);
  return close === -1 ? text.length : close + 1;
}

/** The index of the brace that closes one that is open at `from`; null: there is none. */
export function closingBrace(text: string, from: number): number | null {
  let depth = 1;
  for (let at = from; at < text.length; at++) {
    if (text.charAt(at) === '{') depth += 1;
    if (text.charAt(at) === '}') depth -= 1;
    if (depth === 0) return at;
  }
  return null;
}

function shown({ name, conversion, specification }: Field, { row, depth }: Filling): string {
  const value = converted(lookUp(name, row), conversion);
  const spec = specification.includes('{')
    ? fill(specification, { row, depth: depth - 1 })
    : specification;
  return formatValue(value, spec);
}

function converted(value: Json, conversion: string): Json {
  switch (conversion) {
    case '':
      return value;
    case 'r':
      return reprOf(value);
    case 's':
      return strOf(value);
    case 'a':
      return asciiOf(value);
    default:
      throw refused(`!${conversion}`, 'an unknown conversion');
  }
}

function lookUp(field: string, row: JsonObject): Json {
  const { name, keys } = partsOf(field);
  let value = member(row, name);
  for (const key of keys) value = item(value, key);
  return value;
}

/** A name and the keys in brackets behind it. */
function partsOf(field: string): { name: string; keys: string[] } {
  const name = field.split(/[[.]/, 1)[0] ?? '';
  const keys: string[] = [];
  let at = name.length;
  while (field.charAt(at) === '[') {
    const end = afterBracket(field, at);
    const key = field.slice(at + 1, end - 1);
    if (key === '' || field.charAt(end - 1) !== ']') break;
    keys.push(key);
    at = end;
  }
  if (name === '' || /^\d+$/.test(name) || at < field.length)
    throw refused(`{${field}}`, 'not a field');
  return { name, keys };
}

const refused = (what: string, why: string): Error =>
  new Error(`Prompt template has '${what}', which is not supported (${why}): ${SUPPORTED}`);

function member(object: JsonObject, key: string): Json {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  if (value === undefined) throw new MissingField(key);
  return value;
}

/**
 * As in Python, a key of digits is an index, also into an object. An object's keys are strings, so the lookup fails.
 */
function item(value: Json, key: string): Json {
  const isIndex = /^\d+$/.test(key);
  if (isObject(value) && !isIndex) return member(value, key);
  const items = typeof value === 'string' ? Array.from(value) : value;
  const found = Array.isArray(items) && isIndex ? items[Number(key)] : undefined;
  if (found === undefined) throw new MissingField(key);
  return found;
}
