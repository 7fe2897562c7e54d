import { afterString } from './members.js';

/**
 * What JavaScript's objects and numbers cannot hold of a JSON text. Pure, one pass, no recursion: workflows and every
 * reader of foreign data use it. The text must be JSON.
 */

export interface Loss {
  /** Names and indices from the outermost value to the place. */
  path: (string | number)[];
  /** The number's text, or the name. */
  got: string;
}

/** The first place whose text `JSON.stringify(JSON.parse(text))` would change in more than blanks and escapes. */
export const firstLoss = (text: string): Loss | null =>
  firstOf(text, { isLostNumber: isRewritten, names: true });

/**
 * The first number that no double can hold: a whole number beyond 2^53, one too large for any double, or one so small
 * that it would be 0. `1.0` is 1, and a fraction is its nearest double in every language.
 */
export const firstLostNumber = (text: string): Loss | null =>
  firstOf(text, { isLostNumber: isOutOfReach, names: false });

/** The first whole number beyond 2^53, which has 16 digits at least. */
export const firstLostInteger = (text: string): Loss | null =>
  /\d{16}/.test(text) ? firstOf(text, { isLostNumber: isBeyondIntegers, names: false }) : null;

const isRewritten = (number: string): boolean => String(Number(number)) !== number;

function isOutOfReach(number: string): boolean {
  const value = Number(number);
  if (!Number.isFinite(value)) return true;
  if (value === 0) return hasDigits(number);
  return isBeyondIntegers(number);
}

const isBeyondIntegers = (number: string): boolean =>
  isWhole(number) && !Number.isSafeInteger(Number(number));

/** Whether the mantissa has another digit than 0. */
function hasDigits(number: string): boolean {
  for (const character of number) {
    if (character === 'e' || character === 'E') return false;
    if (character >= '1' && character <= '9') return true;
  }
  return false;
}

const isWhole = (number: string): boolean => !/[.eE]/.test(number);

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** So many digits are exact in a double, and written again as they are. */
const SURE_DIGITS = 15;

interface Level {
  /** null: a list. */
  names: Names | null;
  isName: boolean;
  /** The name or number of the member or entry at hand. */
  at: string | number;
}

interface Look {
  isLostNumber: (text: string) => boolean;
  /** Whether the order and the repetition of names count. */
  names: boolean;
}

function firstOf(text: string, look: Look): Loss | null {
  const levels: Level[] = [];
  let level: Level | undefined;
  const loss = (got: string): Loss => ({ path: levels.map(({ at }) => at), got });
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = afterString(text, at);
      if (level?.isName === true) {
        const name = nameOf(text, { start: at + 1, end: end - 1 });
        level.isName = false;
        level.at = name;
        if (look.names) {
          if (level.names === NONE) level.names = createNames();
          if (level.names?.isLost(name) === true) return loss(name);
        }
      }
      at = end - 1;
    } else if (code === COMMA) {
      if (level?.names === null) level.at = Number(level.at) + 1;
      else if (level !== undefined) level.isName = true;
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      level = code === OPEN_LIST ? listLevel() : objectLevel();
      levels.push(level);
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) {
      levels.pop();
      level = levels.at(-1);
    } else if (code === MINUS || isDigit(code)) {
      const end = afterNumber(text, at + 1);
      if (!isSure(text, { start: at, end })) {
        const number = text.slice(at, end);
        if (look.isLostNumber(number)) return loss(number);
      }
      at = end - 1;
    }
  }
  return null;
}

const listLevel = (): Level => ({ names: null, isName: false, at: 0 });
const objectLevel = (): Level => ({ names: NONE, isName: true, at: '' });

interface Range {
  start: number;
  end: number;
}

function nameOf(text: string, { start, end }: Range): string {
  const name = text.slice(start, end);
  return name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name;
}

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE;

function afterNumber(text: string, from: number): number {
  let at = from;
  // The characters of a number are none that may follow one.
  while (at < text.length && isOfNumber(text.charCodeAt(at))) at += 1;
  return at;
}

/** Digits, `+`, `-`, `.`, `e` and `E`. */
const isOfNumber = (code: number): boolean =>
  isDigit(code) || code === 0x2b || code === MINUS || code === 0x2e || (code | 0x20) === 0x65;

/** A short whole number, but not `-0`. */
function isSure(text: string, { start, end }: Range): boolean {
  const first = text.charCodeAt(start) === MINUS ? start + 1 : start;
  if (end - first > SURE_DIGITS) return false;
  if (first !== start && text.charCodeAt(first) === ZERO) return false;
  for (let at = first; at < end; at++) if (!isDigit(text.charCodeAt(at))) return false;
  return true;
}

/** Nothing is compared yet: many objects are looked at for their numbers alone, or are empty. */
const NONE: Names = { isLost: () => false };

interface Names {
  /** Whether an object in memory would have this name at another place, or twice, or would take it for its prototype. */
  isLost: (name: string) => boolean;
}

/** Up to so many names are compared one by one, which needs no set. */
const FEW = 8;

/** Objects in memory have names that are whole numbers first, in ascending order, and then the others as they came. */
function createNames(): Names {
  const few: string[] = [];
  let many: Set<string> | null = null;
  let last = -1;
  return {
    isLost: (name) => {
      const isRepeated = many === null ? few.includes(name) : many.has(name);
      if (many !== null) many.add(name);
      else if (few.push(name) > FEW) many = new Set(few);
      const whole = wholeNumberOf(name);
      const isMoved = whole !== null && whole < last;
      last = whole ?? Infinity;
      return isRepeated || isMoved || name === '__proto__';
    },
  };
}

/** The largest name that counts as a whole number. */
const MOST_INDEX = 2 ** 32 - 2;

function wholeNumberOf(name: string): number | null {
  if (!isDigit(name.charCodeAt(0)) || name.length > SURE_DIGITS) return null;
  const value = Number(name);
  return value <= MOST_INDEX && String(value) === name ? value : null;
}
