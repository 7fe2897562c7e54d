import { deeper, Scan } from './scan.js';

export interface Loss {
  /** Names and indices from the outermost value to the place. */
  path: (string | number)[];
  /** The number's text. */
  got: string;
}

/**
 * The first number that no double can hold: a whole number beyond 2^53, one too large for any double, or one so small
 * that it would be 0. `1.0` is 1, and a fraction is its nearest double in every language.
 */
export const firstLostNumber = (text: string): Loss | null =>
  /\d{16}|\d[eE]/.test(text) ? firstNumber(text, isOutOfReach) : null;

/** The first whole number beyond 2^53, which has 16 digits at least. */
export const firstLostInteger = (text: string): Loss | null =>
  /\d{16}/.test(text) ? firstNumber(text, isBeyondIntegers) : null;

function isOutOfReach(number: string): boolean {
  const value = Number(number);
  const [mantissa = ''] = number.split(/[eE]/);
  return value === 0 ? /[1-9]/.test(mantissa) : !Number.isFinite(value) || isBeyondIntegers(number);
}

const isBeyondIntegers = (number: string): boolean =>
  !/[.eE]/.test(number) && !Number.isSafeInteger(Number(number));

/** In one pass, without recursion. */
function firstNumber(text: string, isLost: (number: string) => boolean): Loss | null {
  const scan = new Scan(text);
  const path: (string | number)[] = [];
  /** As it is written: few names are asked for. */
  let name = '';
  for (let token = scan.next(); token !== ''; token = scan.next()) {
    const at = path.length - 1;
    const here = path[at];
    if (token === '"') name = text.slice(scan.start, scan.end);
    else if (token === '{') path.push('""');
    else if (token === '[') path.push(0);
    else if (deeper(token) < 0) path.pop();
    else if (token === ':') path[at] = name;
    else if (token !== ',') {
      if (/^[-\d]/.test(token) && isLost(token)) return { path: path.map(readOf), got: token };
    } else if (typeof here === 'number') path[at] = here + 1;
  }
  return null;
}

const readOf = (at: string | number): string | number =>
  typeof at === 'number' ? at : (JSON.parse(at) as string);
