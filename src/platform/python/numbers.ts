import type { LosslessNumber } from 'lossless-json';
import { strip } from './text.js';

/** What orjson reads as an `int`; larger integers become floats there. */
const SMALLEST_INT = -(2n ** 63n);
const LARGEST_INT = 2n ** 64n - 1n;

/** `str(x)` of a number as JSON has it: `3.0` stays `3.0`, `1e-7` becomes `1e-07`. */
export function numberText({ value: text }: LosslessNumber): string {
  if (!/^-?\d+$/.test(text)) return floatText(Number(text));
  const whole = BigInt(text);
  const isInt = whole >= SMALLEST_INT && whole <= LARGEST_INT;
  return isInt ? whole.toString() : floatText(Number(text));
}

/** `repr(x)` of a Python float: the shortest digits that give the double again. Exponents from 1e16 up and below 1e-4. */
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

/** A float as `orjson` writes it, but for exponents (`1e21`, not `1e+21`): whole ones with `.0`, what is not finite as null. */
export function floatJson(value: number): string {
  if (!Number.isFinite(value)) return 'null';
  const text = Object.is(value, -0) ? '-0' : String(value);
  return Number.isInteger(value) && !text.includes('e') ? `${text}.0` : text;
}

const DECIMAL = /\p{Nd}/u;
const NUMBER = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?$/i;
const INFINITE = /^([+-]?)inf(?:inity)?$/i;

/** `float(text)`; null where that raises. Underscores between digits and decimals of every script are digits there. */
export function parseFloatText(text: string): number | null {
  const ascii = Array.from(strip(text), (character) =>
    character > '\x7f' && DECIMAL.test(character) ? String(decimalValue(character)) : character,
  ).join('');
  const infinite = INFINITE.exec(ascii);
  if (infinite !== null) return infinite[1] === '-' ? -Infinity : Infinity;
  if (/^[+-]?nan$/i.test(ascii)) return NaN;
  return NUMBER.test(ascii) ? Number(ascii.replaceAll('_', '')) : null;
}

/** Decimals of a script stand in runs of ten from its zero. */
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
  // A double has a tie at this digit only where it is odd in units of 2^-(digits + 1).
  const units = size * 2 ** (digits + 1);
  if (Number.isSafeInteger(units) && units % 2 === 1) {
    const twice = BigInt(units) * 5n ** BigInt(digits);
    const down = (twice - 1n) / 2n;
    return sign + withPoint(down % 2n === 0n ? down : down + 1n, digits);
  }
  // `toFixed` turns to exponents there; such a double is whole.
  if (size >= 1e21) return sign + withPoint(BigInt(size) * 10n ** BigInt(digits), digits);
  return sign + size.toFixed(digits);
}

function withPoint(scaled: bigint, digits: number): string {
  const text = scaled.toString().padStart(digits + 1, '0');
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** The mean of float32 values, read one by one: summed in double, rounded once, within torch's own rounding of a mean. */
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
