import { strip } from './text.js';

/**
 * `repr(x)` of a Python float: the shortest digits that give the same double. Exponents from 1e16 up and below 1e-4.
 */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  if (value === 0) return `${sign}0.0`;
  const [digits = '', power = '0'] = Math.abs(value).toExponential().split('e');
  const exponent = Number(power);
  const bare = digits.replace('.', '');
  if (exponent >= 16 || exponent < -4) {
    const size = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${digits}e${exponent < 0 ? '-' : '+'}${size}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${bare}`;
  const whole = bare.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${bare.slice(exponent + 1) || '0'}`;
}

/** As `orjson` writes it, except for exponents (`1e21`, not `1e+21`): whole ones with `.0`, non-finite as null. */
export function floatJson(value: number): string {
  if (!Number.isFinite(value)) return 'null';
  const text = Object.is(value, -0) ? '-0' : String(value);
  return Number.isInteger(value) && !text.includes('e') ? `${text}.0` : text;
}

const DECIMAL = /\p{Nd}/u;
const INFINITE = /^([+-]?)inf(?:inity)?$/i;

/** `float(text)`, or null where Python raises. It accepts underscores between digits, and decimals of every script. */
export function parseFloatText(text: string): number | null {
  const ascii = asciiDecimals(strip(text));
  const infinite = INFINITE.exec(ascii);
  if (infinite !== null) return infinite[1] === '-' ? -Infinity : Infinity;
  if (/^[+-]?nan$/i.test(ascii)) return NaN;
  return isFloatText(ascii) ? Number(ascii.replaceAll('_', '')) : null;
}

/** Python reads no integer of more digits. */
export const MOST_DIGITS = 4300;

/** `int(text)`, its nearest double; null where Python raises. */
export function parseIntText(text: string): number | null {
  const ascii = asciiDecimals(strip(text));
  if (!isIntText(ascii)) return null;
  const bare = ascii.replaceAll('_', '');
  return bare.length - afterSign(bare, 0) > MOST_DIGITS ? null : Number(bare);
}

/**
 * Whether ASCII text is an integer or a float of Python's grammar: a sign, digits with underscores between them, a
 * point, an exponent. Written by hand, because a pattern with a repeated group takes a stack that grows with the text,
 * and quadratic time where groups follow each other.
 */
export function isIntText(text: string): boolean {
  const start = afterSign(text, 0);
  const end = afterDigits(text, start);
  return end > start && end === text.length;
}

export function isFloatText(text: string): boolean {
  const start = afterSign(text, 0);
  const whole = afterDigits(text, start);
  const mantissa = text[whole] === '.' ? afterDigits(text, whole + 1) : whole;
  if (whole === start && mantissa <= whole + 1) return false;
  if (mantissa === text.length) return true;
  if (text[mantissa] !== 'e' && text[mantissa] !== 'E') return false;
  const power = afterSign(text, mantissa + 1);
  const end = afterDigits(text, power);
  return end > power && end === text.length;
}

const afterSign = (text: string, at: number): number =>
  text[at] === '+' || text[at] === '-' ? at + 1 : at;

/** The index behind digits with single underscores between them. */
function afterDigits(text: string, start: number): number {
  let at = start;
  while (isDigit(text, at) || (at > start && text[at] === '_' && isDigit(text, at + 1))) at += 1;
  return at;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0x30 && code <= 0x39;
}

/** Decimals of every script become ASCII; the rest stays. */
export function asciiDecimals(text: string): string {
  if (!/[^\0-\x7f]/.test(text)) return text;
  const known = new Map<string, string>();
  return text.replaceAll(/\p{Nd}/gu, (digit) => {
    const ascii = known.get(digit) ?? String(decimalValue(digit));
    known.set(digit, ascii);
    return ascii;
  });
}

/** Decimals of a script occupy ten consecutive code points from its zero. */
function decimalValue(character: string): number {
  const point = character.codePointAt(0) ?? 0;
  let zero = point;
  while (DECIMAL.test(String.fromCodePoint(zero - 1))) zero -= 1;
  return (point - zero) % 10;
}

/** `f'{value:.<digits>f}'`: ties go to the even digit, however large the value. */
export function formatFixed(value: number, digits: number): string {
  if (Number.isNaN(value)) return 'nan';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const size = Math.abs(value);
  if (size === Infinity) return `${sign}inf`;
  return sign + withPoint(scaledBy(size, digits), digits);
}

/** A finite value times 10^power, computed exactly and then rounded, ties to even. */
export function scaledBy(size: number, power: number): bigint {
  const { mantissa, exponent } = binary(size);
  const ten = 10n ** BigInt(Math.abs(power));
  const dividend = (mantissa << BigInt(Math.max(0, exponent))) * (power > 0 ? ten : 1n);
  const divisor = (1n << BigInt(Math.max(0, -exponent))) * (power < 0 ? ten : 1n);
  const down = dividend / divisor;
  const twice = 2n * (dividend % divisor);
  const isUp = twice > divisor || (twice === divisor && down % 2n === 1n);
  return isUp ? down + 1n : down;
}

/** `mantissa × 2^exponent`, exactly. */
function binary(size: number): { mantissa: bigint; exponent: number } {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, size);
  const high = bits.getUint32(0);
  const fraction = (BigInt(high & 0xfffff) << 32n) | BigInt(bits.getUint32(4));
  const biased = high >>> 20;
  // Subnormal numbers have no hidden bit.
  if (biased === 0) return { mantissa: fraction, exponent: -1074 };
  return { mantissa: fraction | (1n << 52n), exponent: biased - 1075 };
}

function withPoint(scaled: bigint, digits: number): string {
  const text = scaled.toString().padStart(digits + 1, '0');
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** The mean of float32 values, summed in double and rounded once. This is within torch's own rounding of a mean. */
export function createFloat32Mean() {
  let sum = 0;
  let count = 0;
  return {
    add: (value: number): void => {
      sum += Math.fround(value);
      count += 1;
    },
    count: (): number => count,
    mean: (): number => Math.fround(sum / count),
  };
}
