import { isNumber, type Json } from '../json/exact.js';
import {
  asciiDecimals,
  floatText,
  formatFixed,
  scaledBy,
} from '../../src/platform/python/numbers.js';
import { intOf, strOf } from './repr.js';
import { countCodePoints } from '../../src/platform/python/text.js';

type Alignment = '<' | '>' | '=' | '^';

/** A parsed format specification: `[[fill]align][sign][z][#][0][width][grouping][.precision][type]`. */
interface Specification {
  /** The original text. */
  text: string;
  fill: string;
  align: Alignment;
  /** Shown before values that are not negative. */
  sign: '' | '+' | '-' | ' ';
  no_negative_zero: boolean;
  alternate: boolean;
  width: number;
  grouping: '' | ',' | '_';
  precision: number | null;
  type: string;
}

/** Python builds texts of any length, but a prompt with such a width is a mistake. */
const WIDEST = 1_000_000;

/**
 * `format(value, specification)` of parsed JSON, as CPython 3.11 does it in the C locale (where `n` groups nothing).
 * Throws where Python raises, and for widths and precisions above a million.
 */
export function formatValue(value: Json, specification: string): string {
  if (specification === '') return strOf(value);
  if (typeof value === 'string') return formatText(value, parse(specification, '<'));
  if (typeof value === 'boolean') return formatInt(value ? 1n : 0n, parse(specification, '>'));
  if (isNumber(value)) {
    const whole = intOf(value);
    const parsed = parse(specification, '>');
    return whole === null ? formatFloat(Number(value.text), parsed) : formatInt(whole, parsed);
  }
  throw invalid(specification, 'null, lists and objects take none');
}

const invalid = (specification: string, why: string): Error =>
  new Error(`format specification '${specification}': ${why}`);

const SPECIFICATION =
  /^(?:(.)?([<>=^]))?([+\- ]?)(z?)(#?)(0?)(\p{Nd}*)([,_]*)(?:(\.)(\p{Nd}*))?(.?)$/su;

function parse(text: string, default_align: '<' | '>'): Specification {
  const parts = SPECIFICATION.exec(text);
  if (parts === null) throw invalid(text, 'not understood');
  const [, fill, align, sign, z, alternate, zero = '', width = '', grouping = '', ...rest] = parts;
  const [point, digits = '', type = ''] = rest;
  if (grouping.length > 1) throw invalid(text, `'${grouping}': expected one of , and _`);
  if (point !== undefined && digits === '') throw invalid(text, 'the precision is missing');
  const isPadded = zero !== '' && fill === undefined;
  return {
    text,
    fill: fill ?? (isPadded ? '0' : ' '),
    // A plain `0` goes between a number's sign and its digits.
    align: (align ?? (isPadded && default_align === '>' ? '=' : default_align)) as Alignment,
    sign: sign as Specification['sign'],
    no_negative_zero: z !== '',
    alternate: alternate !== '',
    width: sizeOf(zero + width, text),
    grouping: grouping as Specification['grouping'],
    precision: point === undefined ? null : sizeOf(digits, text),
    type,
  };
}

function sizeOf(digits: string, specification: string): number {
  const size = Number(asciiDecimals(digits));
  if (size <= WIDEST) return size;
  throw invalid(specification, `${digits} is more than ${WIDEST}`);
}

function formatText(value: string, specification: Specification): string {
  const { text, align, sign, no_negative_zero, alternate, grouping, type, precision } =
    specification;
  const isForNumbers = sign !== '' || no_negative_zero || alternate || grouping !== '';
  if (isForNumbers || align === '=')
    throw invalid(text, 'its sign, z, #, = or grouping need a number');
  if (type !== '' && type !== 's') throw invalid(text, `type ${type} needs a number`);
  const cut = precision === null ? value : Array.from(value).slice(0, precision).join('');
  return padded({ before: '', after: cut }, specification);
}

const BASES: Partial<Record<string, number>> = { b: 2, o: 8, d: 10, n: 10, x: 16, X: 16 };

function formatInt(value: bigint, specification: Specification): string {
  const { text, type, sign, alternate, grouping } = specification;
  if (/^[eEfFgG%]$/.test(type)) return formatFloat(Number(value), specification);
  if (specification.no_negative_zero) throw invalid(text, 'z needs a type of floats');
  if (specification.precision !== null) throw invalid(text, 'an integer has no precision');
  if (type === 'c') {
    if (sign !== '' || alternate || grouping !== '')
      throw invalid(text, 'c goes without sign, # and grouping');
    if (value < 0n || value > 0x10ffffn) throw invalid(text, `${value} is no character`);
    return padded({ before: '', after: String.fromCodePoint(Number(value)) }, specification);
  }
  const base = BASES[type === '' ? 'd' : type];
  if (base === undefined) throw invalid(text, `an integer has no type ${type}`);
  if (grouping !== '' && (type === 'n' || (base !== 10 && grouping === ','))) {
    throw invalid(text, `${grouping} does not go with ${type}`);
  }
  const negative = value < 0n;
  const size = (negative ? -value : value).toString(base);
  const prefix = alternate && base !== 10 ? `0${type}` : '';
  const digits = type === 'X' ? size.toUpperCase() : size;
  const parts = { negative, prefix, digits, rest: '', group: base === 10 ? 3 : 4 };
  return formatParts(parts, specification);
}

function formatFloat(value: number, specification: Specification): string {
  const { text, type, grouping } = specification;
  if (!/^[eEfFgGn%]?$/.test(type)) throw invalid(text, `a float has no type ${type}`);
  if (type === 'n' && grouping !== '') throw invalid(text, `${grouping} does not go with n`);
  const isPercent = type === '%';
  const scaled = isPercent ? value * 100 : value;
  const form = isPercent ? 'f' : type === 'n' ? 'g' : type.toLowerCase();
  const written = floatDigits(Math.abs(scaled), { form, ...specification });
  // Infinity has no digits.
  const [, digits = '', rest = written] = /^(\d+)(.*)$/.exec(written) ?? [];
  const isZero = digits !== '' && !/[1-9]/.test(written.replace(/e.*/, ''));
  const negative =
    (scaled < 0 || Object.is(scaled, -0)) && !(specification.no_negative_zero && isZero);
  const shown = /[EFG]/.test(type) ? rest.toUpperCase() : rest;
  const parts = { negative, prefix: '', digits, rest: shown + (isPercent ? '%' : ''), group: 3 };
  return formatParts(parts, specification);
}

const DEFAULT_PRECISION = 6;

/**
 * `e`, `f` or `g` of a size, rounded from its exact value, ties to the even digit. The empty form is `repr`, unless a
 * precision is given; `alternate`: always a point, and trailing zeros for `g`.
 */
function floatDigits(
  size: number,
  { form, precision, alternate }: Pick<Specification, 'precision' | 'alternate'> & { form: string },
): string {
  if (!Number.isFinite(size) || (form === '' && precision === null)) {
    const text = floatText(size);
    return alternate && !/[.n]/.test(text) ? text.replace('e', '.e') : text;
  }
  const places = precision ?? DEFAULT_PRECISION;
  if (form === 'f') return formatFixed(size, places) + (alternate && places === 0 ? '.' : '');
  if (form === 'e') {
    const { digits, exponent } = significant(size, places + 1);
    return pointed(digits, { whole: 1, alternate }) + exponentText(exponent);
  }
  // Without a form at least one digit follows the point, so the exponent starts one digit earlier.
  const least = form === '' ? 1 : 0;
  const count = Math.max(1, places);
  const { digits: all, exponent } = significant(size, count);
  const kept = alternate ? all : all.replace(/0+$/, '');
  if (exponent < -4 || exponent >= count - least)
    return pointed(kept.padEnd(1, '0'), { whole: 1, alternate }) + exponentText(exponent);
  const digits = '0'.repeat(Math.max(0, -exponent)) + kept;
  const whole = Math.max(1, exponent + 1);
  return pointed(digits.padEnd(whole + least, '0'), { whole, alternate });
}

/** That many digits from the first non-zero one, and its power of ten. */
function significant(size: number, count: number): { digits: string; exponent: number } {
  if (size === 0) return { digits: '0'.repeat(count), exponent: 0 };
  // The shortest text of a float may have been rounded up to a power of ten (1e23 is less), and rounding here may do
  // the same.
  let exponent = Number(size.toExponential().split('e')[1]);
  for (;;) {
    const digits = scaledBy(size, count - 1 - exponent).toString();
    if (digits.length === count) return { digits, exponent };
    exponent += digits.length - count;
  }
}

const pointed = (
  digits: string,
  { whole, alternate }: { whole: number; alternate: boolean },
): string =>
  digits.length === whole && !alternate
    ? digits
    : `${digits.slice(0, whole)}.${digits.slice(whole)}`;

const exponentText = (exponent: number): string =>
  `e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;

interface NumberParts {
  negative: boolean;
  /** `0x` and similar. */
  prefix: string;
  /** The whole part, which is grouped. */
  digits: string;
  /** From the point on; for values without digits (infinity), everything. */
  rest: string;
  /** Digits in a group. */
  group: number;
}

function formatParts(parts: NumberParts, specification: Specification): string {
  const { negative, prefix, digits, rest, group } = parts;
  const { sign, fill, align, width, grouping } = specification;
  const before = (negative ? '-' : sign.replace('-', '')) + prefix;
  // Zeros after the sign are digits, and are grouped with them.
  const least = fill === '0' && align === '=' ? width - before.length - rest.length : 0;
  const grouped =
    digits === '' ? '' : inGroups(digits, { separator: grouping, size: group, least });
  return padded({ before, after: grouped + rest }, specification);
}

/** Grouped from the right, with zeros in front up to `least` characters; never begins with a separator. */
function inGroups(
  digits: string,
  { separator, size, least }: { separator: string; size: number; least: number },
): string {
  if (separator === '') return digits.padStart(least, '0');
  const groups: string[] = [];
  let left = digits;
  let missing = least;
  do {
    const length = Math.min(size, Math.max(left.length, missing, 1));
    groups.unshift(left.slice(-length).padStart(length, '0'));
    left = left.slice(0, Math.max(0, left.length - length));
    missing -= length + separator.length;
  } while (left !== '' || missing + separator.length > 0);
  return groups.join(separator);
}

/** `before`: sign and prefix, which `=` leaves in front of the padding. */
function padded(
  { before, after }: { before: string; after: string },
  { fill, align, width }: Specification,
): string {
  const padding = Math.max(0, width - before.length - countCodePoints(after));
  const left = align === '^' ? Math.floor(padding / 2) : align === '<' ? 0 : padding;
  const right = fill.repeat(padding - left);
  if (align === '=') return before + fill.repeat(left) + after;
  return fill.repeat(left) + before + after + right;
}
