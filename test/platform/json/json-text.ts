import fc from 'fast-check';

/** JSON texts as others write them, and what they say, token by token, found another way than the project does. */

const NUMBERS = [
  '0',
  '-0',
  '1',
  '-1',
  '1.0',
  '0.1',
  '1e5',
  '1E+05',
  '1e400',
  '-1e400',
  '1e-400',
  '0e400',
  '0.0',
  '1e-7',
  '1e-07',
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-9223372036854775783',
  '0.30000000000000004',
  '0.1000',
  '123456789012345',
  '1e21',
  '100000000000000000000',
  '5e-324',
];
/**
 * None ends in a backslash: where an object had such a name, `JSON.parse` of Node.js 24.21 takes a name in the next one of
 * its shape that goes on with an escaped quotation mark for it.
 */
const NAMES = [
  'a',
  'b',
  'metadata',
  '0',
  '1',
  '3',
  '10',
  '01',
  '-1',
  '4294967295',
  '99999999999999999',
  '__proto__',
  '',
  'toJSON',
  'constructor',
  '*',
  'é',
  '\u2028',
  '"',
  '\\a',
  '{"',
  ']',
];

const quoted = (text: string, isEscaped: boolean): string =>
  isEscaped
    ? `"${Array.from(text, (one) => [...new Array(one.length).keys()].map((at) => `\\u${one.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')).join('')}"`
    : JSON.stringify(text);

const string = fc
  .tuple(
    fc.oneof(fc.constantFrom(...NAMES), fc.string({ unit: 'binary', maxLength: 5 })),
    fc.boolean(),
  )
  .map(([text, isEscaped]) => quoted(text, isEscaped));
const name = fc
  .tuple(fc.constantFrom(...NAMES), fc.boolean())
  .map(([text, isEscaped]) => quoted(text, isEscaped));
const blank = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n ');

export const jsonText: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, depthSize: 'medium' },
    fc.constantFrom('null', 'true', 'false', ...NUMBERS),
    string,
    fc
      .tuple(fc.array(tie('value'), { maxLength: 4 }), blank)
      .map(([items, space]) => `[${space}${items.join(`${space},${space}`)}${space}]`),
    fc
      .tuple(fc.array(fc.tuple(name, tie('value')), { maxLength: 12 }), blank)
      .map(
        ([members, space]) =>
          `{${space}${members.map(([key, value]) => `${key}${space}:${space}${value}`).join(`${space},${space}`)}${space}}`,
      ),
  ),
})).value;

/** What the text says: brackets, separators, numbers as they are written, and strings as they are read. */
export const tokensOf = (text: string): string[] =>
  Array.from(text.matchAll(/"(?:\\.|[^"\\])*"|[[\]{}:,]|[^\s"[\]{}:,]+/gs), ([token]) =>
    token.startsWith('"') ? `"${JSON.parse(token) as string}` : token,
  );
