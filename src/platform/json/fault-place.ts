import { describeError } from '../errors.js';

/** Where a text stops to be JSON. V8 says it for some faults, as an offset, and quotes the text for others. */
interface JsonFault {
  /** Counted from 1, in characters of JavaScript. */
  line: number;
  column: number;
  /** What was expected there, and what came. */
  what: string;
}

/** Throws where a file of people stops to be JSON. `what`: which file was expected. */
export function checkJson(text: string, { file, what }: { file: string; what: string }): void {
  const fault = jsonFault(text);
  if (fault === null) return;
  const { line, column } = fault;
  throw new Error(`${file}:${line}:${column}: expected ${what} as JSON: ${fault.what}`);
}

/** Why `readJson` threw this, for a message that names the line of a file. */
export function whyNoJson(text: string, error: unknown): string {
  const fault = jsonFault(text);
  return fault === null ? describeError(error) : `column ${fault.column}: ${fault.what}`;
}

type Expected =
  'value' | 'value or ]' | 'name or }' | 'name' | ':' | 'comma or ]' | 'comma or }' | 'end';

const WORDS: Record<Expected, string> = {
  value: 'a value',
  'value or ]': 'a value or ]',
  'name or }': 'a name in double quotes or }',
  name: 'a name in double quotes',
  ':': 'a colon',
  'comma or ]': 'a comma or ]',
  'comma or }': 'a comma or }',
  end: 'nothing more',
};

const BLANKS = /[ \t\n\r]*/y;
const WORD = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
// Up to what ends a string or needs a closer look.
const PLAIN = /[^"\\\u0000-\u001f]*/y;

const after = (pattern: RegExp, { text, at }: { text: string; at: number }): number => {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
};

/** What a character does where it is expected. `next`: absent: whatever follows a value. */
interface Move {
  next?: Expected;
  opens?: '[' | '{';
  closes?: true;
}

const OPENING = {
  '[': { opens: '[', next: 'value or ]' },
  '{': { opens: '{', next: 'name or }' },
} as const;
const CLOSES = { closes: true } as const;
const MOVES: Record<Expected, Partial<Record<string, Move>>> = {
  value: OPENING,
  'value or ]': { ...OPENING, ']': CLOSES },
  'name or }': { '}': CLOSES },
  name: {},
  ':': { ':': { next: 'value' } },
  'comma or ]': { ',': { next: 'value' }, ']': CLOSES },
  'comma or }': { ',': { next: 'name' }, '}': CLOSES },
  end: {},
};

export function jsonFault(text: string): JsonFault | null {
  const open: ('[' | '{')[] = [];
  let at = 0;
  let expected = 'value' as Expected;
  const go = (to: number, next: Expected | undefined): void => {
    const last = open.at(-1);
    at = to;
    expected = next ?? (last === undefined ? 'end' : last === '[' ? 'comma or ]' : 'comma or }');
  };
  for (;;) {
    at = after(BLANKS, { text, at });
    const character = text[at];
    if (expected === 'end' && character === undefined) return null;
    const isName = expected.startsWith('name');
    const isValue = expected.startsWith('value');
    const move = MOVES[expected][character ?? ''];
    if (move !== undefined) {
      if (move.opens !== undefined) open.push(move.opens);
      if (move.closes === true) open.pop();
      go(at + 1, move.next);
    } else if (character === '"' && (isName || isValue)) {
      const end = stringEnd(text, at);
      if ('fault' in end) return faultAt(text, { at: end.at, what: end.fault });
      go(end.at, isName ? ':' : undefined);
    } else {
      const end = isValue ? after(WORD, { text, at }) : at;
      if (end === at) return faultAt(text, { at, what: `expected ${WORDS[expected]}` });
      go(end, undefined);
    }
  }
}

function stringEnd(text: string, start: number): { at: number } | { at: number; fault: string } {
  for (let at = start + 1; ;) {
    at = after(PLAIN, { text, at });
    if (text[at] === '"') return { at: at + 1 };
    const escaped = after(ESCAPE, { text, at });
    if (escaped === at) {
      const isEscape = text[at] === '\\' && at + 1 < text.length;
      return {
        at,
        fault: isEscape
          ? 'expected an escape of JSON'
          : 'expected the end of a text in double quotes',
      };
    }
    at = escaped;
  }
}

function faultAt(text: string, { at, what }: { at: number; what: string }): JsonFault {
  const before = text.slice(0, at);
  const lines = before.split('\n');
  const got =
    text[at] === undefined
      ? 'the end'
      : JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0));
  return {
    line: lines.length,
    column: (lines.at(-1) ?? '').length + 1,
    what: `${what}, got ${got}`,
  };
}
