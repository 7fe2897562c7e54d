/**
 * Text as Python's `str` treats it. Graders must score as upstream's do, so they must agree on white space, digits,
 * numbers and rounding. JavaScript differs in a few characters of each.
 */

/** A character class: what `str.strip`, `str.split` and `\s` count as white space. */
export const PYTHON_SPACE =
  '[\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const SPACE = new RegExp(PYTHON_SPACE);
const SPACES = new RegExp(`${PYTHON_SPACE}+`);

/** `text.strip()`. By hand: a pattern for trailing space takes quadratic time on long runs within the text. */
export function strip(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && SPACE.test(text.charAt(start))) start += 1;
  while (end > start && SPACE.test(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** `text.split()`: the words between white space. */
export function splitWords(text: string): string[] {
  const stripped = strip(text);
  return stripped === '' ? [] : stripped.split(SPACES);
}

/** `len(text)`: code points, not UTF-16 units. */
export function countCodePoints(text: string): number {
  let pairs = 0;
  for (const { length } of text) pairs += length - 1;
  return text.length - pairs;
}

/** `text[-count:]`. */
export function lastCodePoints(text: string, count: number): string {
  // A code point takes at most two units. A surrogate that was cut at the front is outside the requested part.
  return Array.from(text.slice(-2 * count))
    .slice(-count)
    .join('');
}

/** Unicode's Numeric_Type=Digit (superscripts, circled and similar), which property escapes lack. */
const DIGITS_ONLY =
  '\\xb2\\xb3\\xb9\\u1369-\\u1371\\u19da\\u2070\\u2074-\\u2079\\u2080-\\u2089\\u2460-\\u2468\\u2474-\\u247c' +
  '\\u2488-\\u2490\\u24ea\\u24f5-\\u24fd\\u24ff\\u2776-\\u277e\\u2780-\\u2788\\u278a-\\u2792\\u{10a40}-\\u{10a43}' +
  '\\u{10e60}-\\u{10e68}\\u{11052}-\\u{1105a}\\u{1f100}-\\u{1f10a}';
const NO_DIGIT = new RegExp(`[^\\p{Nd}${DIGITS_ONLY}]`, 'u');

/** `text.isdigit()`. */
export const isDigits = (text: string): boolean => text !== '' && !NO_DIGIT.test(text);
