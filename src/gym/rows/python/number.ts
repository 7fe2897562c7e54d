import type { LosslessNumber } from 'lossless-json';

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
