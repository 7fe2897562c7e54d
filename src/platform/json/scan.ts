const BACKSLASH = 0x5c;

/** Every token. A pattern keeps a place, and what modules export is frozen in workflows: none is exported. */
const ANY = /[{}[\],:"]|[^\s{}[\],:"]+/g;
const BRACKETS = /[{}[\]"]/g;

/**
 * One pass over a JSON text, from token to token: all that looks into JSON of others is made of it. No value is made, and
 * nothing recurses. Text that is no JSON has some tokens, too. Pure: workflows use it.
 */
export class Scan {
  readonly text: string;
  /** Where the token at hand begins and ends. */
  start = 0;
  end = 0;

  constructor(text: string) {
    this.text = text;
  }

  /**
   * The next token that a global pattern finds. What it jumps over costs next to nothing. It must find quotation marks,
   * since a string is one token, whatever it holds: `"`. '': the end.
   */
  next(pattern = ANY): string {
    const { text } = this;
    pattern.lastIndex = this.end;
    const [token = ''] = pattern.exec(text) ?? [];
    this.end = token === '' ? text.length : pattern.lastIndex;
    this.start = this.end - token.length;
    if (token === '"') this.end = (stringEnd(text, this.start) ?? text.length - 1) + 1;
    return token;
  }

  /** The text of the value that begins with the token at hand, which becomes its last. */
  value(): string {
    const from = this.start;
    let depth = deeper(this.text.charAt(from));
    while (depth > 0) {
      const token = this.next(BRACKETS);
      if (token === '') throw new SyntaxError('an object or array does not end');
      depth += deeper(token);
    }
    return this.text.slice(from, this.end);
  }
}

/** How a token changes the depth. */
export const deeper = (token: string): number =>
  token === '{' || token === '[' ? 1 : token === '}' || token === ']' ? -1 : 0;

/** The index of a string's closing quote; null: it does not end. `from` is at its opening one. */
export function stringEnd(text: string, from: number): number | null {
  let at = from;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at === -1) return null;
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at;
  }
}
