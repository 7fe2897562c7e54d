import { isObject } from '../json/lossless.js';
import type { Json, JsonObject } from '../json/lossless.js';
import { strOf } from './repr.js';

/** A field that the template names and the row lacks: Python's KeyError. */
export class MissingField extends Error {
  readonly field: string;

  constructor(field: string) {
    super(`no field '${field}'`);
    this.field = field;
  }
}

const SUPPORTED = 'supported are {field}, {field[key]}, {field[0]}, and {{ and }} for braces';

/**
 * `template.format_map(row)`: the row's top-level fields, `[key]` into what they hold. Attributes, conversions (`!r`) and
 * format specifications (`:.2f`) are refused, as in a prompt they are nearly always braces that should have been doubled.
 */
export function formatMap(template: string, row: JsonObject): string {
  let text = '';
  let at = 0;
  while (at < template.length) {
    const character = template.charAt(at);
    if (character !== '{' && character !== '}') {
      const rest = template.slice(at);
      const end = rest.search(/[{}]/);
      const plain = end < 0 ? rest : rest.slice(0, end);
      text += plain;
      at += plain.length;
    } else if (template.charAt(at + 1) === character) {
      text += character;
      at += 2;
    } else if (character === '}') {
      throw new Error(`Single '}' encountered in prompt template: ${SUPPORTED}`);
    } else {
      const end = template.indexOf('}', at);
      if (end < 0) throw new Error(`Single '{' encountered in prompt template: ${SUPPORTED}`);
      text += strOf(lookUp(template.slice(at + 1, end), row));
      at = end + 1;
    }
  }
  return text;
}

function lookUp(field: string, row: JsonObject): Json {
  const [, name = '', path = ''] = /^([^[\]{}.!:]+)((?:\[[^[\]{}]+\])*)$/.exec(field) ?? [];
  if (name === '') {
    throw new Error(`Prompt template has '{${field}}', which is not supported: ${SUPPORTED}`);
  }
  let value = member(row, name);
  for (const [, key = ''] of path.matchAll(/\[([^[\]]+)\]/g)) value = item(value, key);
  return value;
}

function member(object: JsonObject, key: string): Json {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  if (value === undefined) throw new MissingField(key);
  return value;
}

/** As Python has it, a key of digits is an index, also of an object, whose keys are strings: it has none such. */
function item(value: Json, key: string): Json {
  const isIndex = /^\d+$/.test(key);
  if (isObject(value) && !isIndex) return member(value, key);
  const found = Array.isArray(value) && isIndex ? value[Number(key)] : undefined;
  if (found === undefined) throw new MissingField(key);
  return found;
}
