import { floatText, scaledBy } from '../../src/platform/python/numbers.js';

/**
 * `e`, `f` and `g` of Python's format specifications. `shortest` is the empty type: `repr`, unless a precision is
 * given.
 */
export type FloatForm = 'e' | 'f' | 'g' | 'shortest';

export interface FloatStyle {
  form: FloatForm;
  precision: number | null;
  /** `#`: always a point, and trailing zeros for `g`. */
  alternate: boolean;
  no_negative_zero: boolean;
}

export interface FloatParts {
  negative: boolean;
  /** Before the point; empty for values that are not finite. */
  digits: string;
  /** From the point or the exponent on. */
  rest: string;
}

const DEFAULT_PRECISION = 6;

/** A float's text, rounded from its exact value, ties to the even digit. */
export function floatParts(value: number, style: FloatStyle): FloatParts {
  const negative = value < 0 || Object.is(value, -0);
  const size = Math.abs(value);
  if (Number.isNaN(size)) return { negative: false, digits: '', rest: 'nan' };
  if (size === Infinity) return { negative, digits: '', rest: 'inf' };
  const text = textOf(size, style);
  const [, digits = '', rest = ''] = /^(\d+)(.*)$/.exec(text) ?? [];
  const isZero = !/[1-9]/.test(text.replace(/e.*/, ''));
  return { negative: negative && !(style.no_negative_zero && isZero), digits, rest };
}

function textOf(size: number, { form, precision, alternate }: FloatStyle): string {
  if (form === 'shortest' && precision === null)
    return alternate ? pointed(floatText(size)) : floatText(size);
  const places = precision ?? DEFAULT_PRECISION;
  if (form === 'f') {
    const scaled = scaledBy(size, places)
      .toString()
      .padStart(places + 1, '0');
    return joined({ digits: scaled, whole: scaled.length - places, alternate });
  }
  if (form === 'e') {
    const { digits, exponent } = significant(size, places + 1);
    return joined({ digits, whole: 1, alternate }) + exponentText(exponent);
  }
  return general(size, { count: Math.max(1, places), alternate, hasPoint: form === 'shortest' });
}

/** `g`. With `hasPoint` at least one digit follows the point, so the exponent starts one digit earlier. */
function general(
  size: number,
  { count, alternate, hasPoint }: { count: number; alternate: boolean; hasPoint: boolean },
): string {
  const { digits: all, exponent } = significant(size, count);
  const kept = alternate ? all : all.replace(/0+$/, '');
  if (exponent < -4 || exponent >= count - (hasPoint ? 1 : 0)) {
    return joined({ digits: kept.padEnd(1, '0'), whole: 1, alternate }) + exponentText(exponent);
  }
  const digits = '0'.repeat(Math.max(0, -exponent)) + kept;
  const whole = Math.max(1, exponent + 1);
  return joined({ digits: digits.padEnd(whole + (hasPoint ? 1 : 0), '0'), whole, alternate });
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

function joined({
  digits,
  whole,
  alternate,
}: {
  digits: string;
  whole: number;
  alternate: boolean;
}): string {
  const isWhole = digits.length === whole && !alternate;
  return isWhole ? digits : `${digits.slice(0, whole)}.${digits.slice(whole)}`;
}

const exponentText = (exponent: number): string =>
  `e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;

const pointed = (text: string): string => (text.includes('.') ? text : text.replace('e', '.e'));
