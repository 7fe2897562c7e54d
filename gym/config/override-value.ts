import { KeptJson } from '../../src/platform/json/kept.js';
import type { Json, JsonObject } from '../json/exact.js';
import {
  MOST_DIGITS,
  floatText,
  isFloatText,
  isIntText,
} from '../../src/platform/python/numbers.js';
import { nameProblem } from '../../src/model/untrusted.js';
import { closingBrace } from '../python/format-map.js';

/**
 * A value of Hydra's override grammar: `4`, `1e-3`, `true`, `null`, text with or without quotes, `[a, b]`, `{a: 2,
 * _default: 1}`, and interpolations (`${a.b}`), which stay text until the configuration is complete. Throws the
 * problem. Characters that Hydra's lexer refuses without need (`é`, `~`) are text.
 */
export function parseOverrideValue(text: string): Json {
  const reader: Reader = { text, at: 0 };
  const value = readElement(reader, '');
  const rest = text.charAt(reader.at);
  if (rest === ',') {
    throw new Error(
      `${text} is ambiguous: for a list write [${text}], for text with a comma quote it`,
    );
  }
  if (rest !== '') throw new Error(`unexpected ${rest} in ${text}: quote the value`);
  return value;
}

interface Reader {
  text: string;
  at: number;
}

const BLANK = /[ \t]/;

function skipBlanks(reader: Reader): void {
  while (BLANK.test(reader.text.charAt(reader.at))) reader.at += 1;
}

/** `ends`: what ends an unquoted text here, besides a comma. */
function readElement(reader: Reader, ends: string): Json {
  skipBlanks(reader);
  const first = reader.text.charAt(reader.at);
  if (first === '[') return readList(reader);
  if (first === '{') return readObject(reader);
  if (first === '"' || first === "'") return readQuoted(reader, first);
  return readUnquoted(reader, ends);
}

function readList(reader: Reader): Json[] {
  const items: Json[] = [];
  reader.at += 1;
  skipBlanks(reader);
  if (takes(reader, ']')) return items;
  for (;;) {
    items.push(readElement(reader, ']'));
    if (takes(reader, ']')) return items;
    expect(reader, ',');
  }
}

function readObject(reader: Reader): JsonObject {
  const object: JsonObject = {};
  reader.at += 1;
  skipBlanks(reader);
  if (takes(reader, '}')) return object;
  for (;;) {
    const key = readElement(reader, ':');
    expect(reader, ':');
    const name = keyText(key);
    const problem = nameProblem(name);
    if (problem !== null) throw new Error(`${reader.text}: ${problem}`);
    object[name] = readElement(reader, '}');
    if (takes(reader, '}')) return object;
    expect(reader, ',');
  }
}

/** Keys that look like numbers or booleans are text in the request. */
function keyText(key: Json): string {
  if (key instanceof KeptJson) return key.text;
  return typeof key === 'string' ? key : JSON.stringify(key);
}

function takes(reader: Reader, character: string): boolean {
  skipBlanks(reader);
  if (reader.text.charAt(reader.at) !== character) return false;
  reader.at += 1;
  return true;
}

function expect(reader: Reader, character: string): void {
  if (takes(reader, character)) return;
  const got = reader.text.charAt(reader.at) || 'the end';
  throw new Error(`expected ${character} in ${reader.text}, got ${got}`);
}

/** Backslashes count only before the quote: `\'` is a quote, `\\'` a backslash and the end. */
function readQuoted(reader: Reader, mark: string): string {
  let value = '';
  reader.at += 1;
  for (;;) {
    const character = reader.text.charAt(reader.at);
    if (character === '') throw new Error(`${reader.text} lacks its closing ${mark}`);
    if (character === '\\') {
      const [run = ''] = /^\\+/.exec(reader.text.slice(reader.at)) ?? [];
      const after = reader.text.charAt(reader.at + run.length);
      const isEscape = after === mark;
      value += isEscape ? '\\'.repeat(Math.floor(run.length / 2)) : run;
      reader.at += run.length;
      if (isEscape && run.length % 2 === 1) {
        value += mark;
        reader.at += 1;
      }
      continue;
    }
    reader.at += 1;
    if (character === mark) {
      skipBlanks(reader);
      return value;
    }
    value += character;
  }
}

const ESCAPABLE = '\\()[]{}:=, \t';

function readUnquoted(reader: Reader, ends: string): Json {
  let raw = '';
  let value = '';
  for (;;) {
    const character = reader.text.charAt(reader.at);
    if (character === '' || character === ',' || (ends !== '' && ends.includes(character))) break;
    if (character === '\\' && isEscapable(reader.text.charAt(reader.at + 1))) {
      value += reader.text.charAt(reader.at + 1);
      // Escaped characters are never trimmed, and never part of a number.
      raw += '\0';
      reader.at += 2;
      continue;
    }
    if (character === '$' && reader.text.charAt(reader.at + 1) === '{') {
      const interpolation = readInterpolation(reader);
      value += interpolation;
      raw += '\0'.repeat(interpolation.length);
      continue;
    }
    refuseStructure(reader, { character, before: value });
    raw += character;
    value += character;
    reader.at += 1;
  }
  const start = raw.length - raw.trimStart().length;
  const end = raw.trimEnd().length;
  if (end === 0 && ends !== '') throw new Error(`a value is missing in ${reader.text}`);
  const known = typed(raw.slice(start, end));
  return known === undefined ? value.slice(start, Math.max(start, end)) : known;
}

const isEscapable = (character: string): boolean =>
  character !== '' && ESCAPABLE.includes(character);

function refuseStructure(
  { text }: Reader,
  { character, before }: { character: string; before: string },
): void {
  if (character === '(') {
    throw new Error(
      `${before.trim()}(…) in ${text} is a function of Hydra's, which is not supported: write the value, or quote it`,
    );
  }
  if (')[]{}="\''.includes(character)) {
    throw new Error(`unexpected ${character} in ${text}: quote the value`);
  }
}

/** With its braces, including nested ones. */
function readInterpolation(reader: Reader): string {
  const start = reader.at;
  const end = closingBrace(reader.text, start + 2);
  if (end === null) throw new Error(`${reader.text} lacks the } of an interpolation`);
  reader.at = end + 1;
  return reader.text.slice(start, reader.at);
}

/** undefined: it is text. */
function typed(raw: string): Json | undefined {
  if (/^null$/i.test(raw)) return null;
  if (/^true$/i.test(raw)) return true;
  if (/^false$/i.test(raw)) return false;
  if (/^[+-]?(?:inf|nan)$/i.test(raw)) {
    throw new Error(`${raw} is no JSON, which the row is sent as`);
  }
  const bare = raw.replaceAll('_', '');
  if (!isIntText(raw)) return isFloatText(raw) ? new KeptJson(floatText(Number(bare))) : undefined;
  const digits = bare.replace(/^[+-]/, '');
  if (digits.length > 1 && digits.startsWith('0')) return undefined;
  if (digits.length > MOST_DIGITS)
    throw new Error(
      `expected a number of at most ${MOST_DIGITS} digits, got ${digits.length}: quote it`,
    );
  return new KeptJson(BigInt(bare.replace('+', '')).toString());
}
