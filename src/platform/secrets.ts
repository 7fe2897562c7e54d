/**
 * The secrets of this process: API keys and other credentials. They are registered where they are read. They are then
 * removed from every text that comes from outside, and from every fault and log line. Services and proxies echo request
 * headers in their error pages, and such text reaches Temporal's history, journals and rows.
 *
 * This finds a secret's own text, its forms in JSON, Python, URLs and HTML, and its base64 at any offset (`Basic` sends
 * name and password that way). It cannot stop a service that hides a secret on purpose.
 */

/** Shorter values are ordinary words; removing them would damage other text. */
export const FEWEST_CHARACTERS = 8;
const REMOVED = '[secret]';

export function createSecrets() {
  const known = new Set<string>();
  let pattern: RegExp | null = null;
  /** Length of the longest form of any secret. */
  let longest = 0;
  /** Returns the text without secrets. */
  const removedFrom = (text: string): string =>
    pattern === null ? text : text.replace(pattern, REMOVED);
  return {
    keep: (value: string): void => {
      if (value.length < FEWEST_CHARACTERS || known.has(value)) return;
      known.add(value);
      const forms = [...known].flatMap(formsOf).sort((a, b) => b.length - a.length);
      pattern = new RegExp(forms.map(patternOf).join('|'), 'g');
      longest = Math.max(...forms.map(longestOf));
    },
    removedFrom,
    /** The same for the beginning of a longer text: its end may hold the beginning of a secret, and is removed, too. */
    removedFromCut: (text: string): string => {
      const rest = removedFrom(text);
      return rest.slice(0, Math.max(0, rest.length - longest));
    },
  };
}

/** The secrets of this process. */
export const {
  keep: keepSecret,
  removedFrom: withoutSecrets,
  removedFromCut: withoutSecretsIfCut,
} = createSecrets();

/**
 * The value of a variable that the settings name. Throws if it is not set, if it is too short to be distinguished from
 * ordinary text, or if it is not a single printable word, as headers require.
 */
export function readSecret(
  variable: string,
  { env, setting }: { env: (variable: string) => string | undefined; setting: string },
): string {
  const value = env(variable) ?? '';
  const expected = `${setting}: expected the environment variable ${variable} to hold the key`;
  if (value === '') throw new Error(`${expected}, it is not set`);
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new Error(`${expected}, got one with spaces, line ends or other unprintable characters`);
  }
  if (value.length < FEWEST_CHARACTERS) {
    const why = `a shorter one cannot be kept out of journals and logs; where the service needs no key, leave ${setting} out`;
    throw new Error(
      `${expected} of at least ${FEWEST_CHARACTERS} characters, got ${value.length}: ${why}`,
    );
  }
  keepSecret(value);
  return value;
}

const formsOf = (secret: string): string[] => [
  secret,
  ...[0, 1, 2].map((offset) => base64Within(secret, offset)),
];

const NAMED: Record<string, string> = {
  '&': '&amp;',
  '"': '&quot;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&apos;',
};
/** Letters and digits are the same in every form. */
const PLAIN = /[A-Za-z0-9]/;
/** Eight backslashes, then `u00ff`. */
const LONGEST_ESCAPE = 13;

/** Escapes before the first character may stay: otherwise a text of backslashes would be searched from each of them. */
const patternOf = (form: string): string =>
  form
    .split('')
    .map((character, at) => (PLAIN.test(character) ? character : escapes(character, at > 0)))
    .join('');

const longestOf = (form: string): number =>
  form
    .split('')
    .map((character) => (PLAIN.test(character) ? 1 : LONGEST_ESCAPE))
    .reduce((sum, characters) => sum + characters, 0);

function escapes(character: string, with_backslashes: boolean): string {
  const code = character.charCodeAt(0);
  const hex = code
    .toString(16)
    .padStart(2, '0')
    .replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
  const itself = `\\u${code.toString(16).padStart(4, '0')}`;
  // URL-safe base64 writes + and / differently.
  const same = { '+': '\\-', '/': '_' }[character] ?? '';
  const named = NAMED[character];
  const backslashes = (least: number, most: number): string =>
    with_backslashes ? `\\\\{${least},${most}}` : '\\\\'.repeat(least);
  // All repetitions are bounded, so a text of a million backslashes costs no more than any other.
  const forms = [
    character === '\\' ? backslashes(1, 4) : `${backslashes(0, 8)}[${itself}${same}]`,
    `%(?:25){0,4}${hex}`,
    `${backslashes(1, 8)}(?:u00|x)${hex}`,
    `&#(?:0{0,6}${code}|[xX]0{0,6}${hex});`,
    ...(named === undefined ? [] : [named]),
  ];
  return `(?:${forms.join('|')})`;
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/**
 * The base64 digits that a text determines by itself if it begins `offset` bytes after a group of three. By hand:
 * workflow code, which reaches this by its types, is checked without those of Node.
 */
function base64Within(text: string, offset: number): string {
  const bytes = text.split('').map((character) => character.charCodeAt(0) & 0xff);
  const bits = bytes.map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const skipped = (6 - ((offset * 8) % 6)) % 6;
  let digits = '';
  for (let at = skipped; at + 6 <= bits.length; at += 6) {
    digits += DIGITS[Number.parseInt(bits.slice(at, at + 6), 2)] ?? '';
  }
  return digits;
}
