import { KeptJson } from '../../src/platform/json/kept.js';
import { isAlias, isMap, isScalar, isSeq } from 'yaml';
import type { Document, Node, Scalar } from 'yaml';
import type { Json, JsonObject } from '../json/exact.js';
import { MOST_DIGITS, floatText } from '../../src/platform/python/numbers.js';
import { strOf } from '../python/repr.js';
import { describeError } from '../../src/platform/errors.js';
import { nameProblem } from '../../src/model/untrusted.js';
import { parseYamlDocument } from '../../src/platform/yaml.js';

/**
 * YAML as PyYAML with OmegaConf's loader reads it (YAML 1.1: `yes` is true, `1e-3` a float, dates are text). Numbers
 * remember whether they were whole. An error names the file, the line and the column.
 */
export function parseYaml(text: string, file: string): Json {
  const parsed = parseYamlDocument(text, {
    schema: 'failsafe',
    version: '1.1',
    // By hand: the library loses the key's text.
    merge: false,
  });
  if ('problem' in parsed) {
    const { line, column, what } = parsed.problem;
    throw new Error(`Malformed YAML in '${file}' at line ${line}, column ${column}: ${what}`);
  }
  const { document } = parsed;
  try {
    return jsonOf(document.contents, document);
  } catch (error) {
    throw new Error(`Malformed YAML in '${file}': ${describeError(error)}`, { cause: error });
  }
}

function jsonOf(node: unknown, document: Document): Json {
  if (isAlias(node)) return jsonOf(node.resolve(document), document);
  if (isScalar(node)) return scalarOf(node);
  if (isSeq(node)) return node.items.map((item) => jsonOf(item, document));
  if (!isMap(node)) return null;
  const object: JsonObject = {};
  for (const { key, value } of node.items) {
    const name = keyOf(key as Node, document);
    const problem = nameProblem(name);
    if (problem !== null) throw new Error(problem);
    // `<<: *base`: the mapping's own keys win.
    if (name === '<<') mergeInto(object, jsonOf(value, document));
    else object[name] = jsonOf(value, document);
  }
  return object;
}

function mergeInto(object: JsonObject, base: Json): void {
  for (const one of Array.isArray(base) ? base : [base]) {
    if (typeof one !== 'object' || one === null) continue;
    for (const [key, value] of Object.entries(one as JsonObject)) {
      if (!Object.hasOwn(object, key)) object[key] = value;
    }
  }
}

const keyOf = (key: Node, document: Document): string => strOf(jsonOf(key, document));

function scalarOf({ value, type, tag }: Scalar): Json {
  const text = typeof value === 'string' ? value : '';
  return type !== 'PLAIN' || tag === 'tag:yaml.org,2002:str' ? text : plainValue(text);
}

/** A plain (unquoted) scalar. `.inf` and `.nan`, which JSON lacks, stay text. */
function plainValue(text: string): Json {
  if (/^(?:~|null|Null|NULL|)$/.test(text)) return null;
  if (/^(?:yes|Yes|YES|true|True|TRUE|on|On|ON)$/.test(text)) return true;
  if (/^(?:no|No|NO|false|False|FALSE|off|Off|OFF)$/.test(text)) return false;
  return wholeNumber(text) ?? fraction(text) ?? text;
}

/** Decimal, `0x1f`, `0b1`, octal as `017`, and sixties as `1:30`. What is longer than Python's numbers is text. */
function wholeNumber(text: string): KeptJson | null {
  if (text.length > MOST_DIGITS) return null;
  const [, sign = '', digits = ''] =
    /^([-+]?)(0b[01_]+|0x[\da-fA-F_]+|0[0-7_]+|0|[1-9][\d_]*(?::[0-5]?\d)*)$/.exec(text) ?? [];
  if (digits === '') return null;
  const [first = '', ...sixties] = digits.replaceAll('_', '').split(':');
  const isOctal = /^0[0-7]+$/.test(first);
  const start = BigInt(isOctal ? `0o${first.slice(1)}` : first);
  const size = sixties.reduce((sum, part) => sum * 60n + BigInt(part), start);
  return new KeptJson((sign === '-' ? -size : size).toString());
}

const FLOAT =
  /^[-+]?(?:\d[\d_]*\.[\d_]*(?:e[-+]?\d+)?|\d[\d_]*(?:e[-+]?\d+)|\.[\d_]+(?:e[-+]?\d+)?)$/i;

function fraction(text: string): KeptJson | null {
  const value = FLOAT.test(text) ? Number(text.replaceAll('_', '')) : NaN;
  return Number.isFinite(value) ? new KeptJson(floatText(value)) : null;
}
