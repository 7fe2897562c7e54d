import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { jsonFault } from '../../../src/platform/json/fault-place.js';

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** JSON with a piece replaced, which mostly breaks it. */
const broken = fc
  .record({
    text: fc.json(),
    at: fc.nat(40),
    cut: fc.nat(3),
    put: fc.constantFrom(
      '',
      ',',
      '"',
      '}',
      ']',
      ':',
      '\\',
      '\\u12',
      '\n',
      '\t',
      '01',
      '-',
      '.5',
      'nul',
      'é',
      '\u0000',
      '{',
      '[',
    ),
  })
  .map(({ text, at, cut, put }) => {
    const place = at % (text.length + 1);
    return text.slice(0, place) + put + text.slice(place + cut);
  });

describe('where a text stops to be JSON', () => {
  test('is nowhere for exactly what JSON.parse reads', () => {
    fc.assert(
      fc.property(fc.oneof(broken, fc.json(), fc.string()), (text) => {
        assert.equal(jsonFault(text) === null, isJson(text), JSON.stringify(text));
      }),
      { numRuns: 3000 },
    );
  });

  test('is where it would stop, too, if nothing followed', () => {
    fc.assert(
      fc.property(broken, (text) => {
        const found = jsonFault(text);
        if (found === null) return;
        const lines = text.split('\n');
        const before = lines
          .slice(0, found.line - 1)
          .reduce((sum, line) => sum + line.length + 1, 0);
        const head = text.slice(0, before + found.column - 1);
        // What it begins with may be JSON that something forbidden follows.
        const again = jsonFault(head);
        if (again !== null)
          assert.deepEqual([again.line, again.column], [found.line, found.column], head);
      }),
      { numRuns: 3000 },
    );
  });

  test('is named by line and column, with what was expected there', () => {
    const cases: [text: string, line: number, column: number, what: string][] = [
      ['{\n  "num_repeats": 8,\n  "limit" 4\n}', 3, 11, 'expected a colon, got "4"'],
      ['{"a": 1,}', 1, 9, 'expected a name in double quotes, got "}"'],
      ["{'a': 1}", 1, 2, 'expected a name in double quotes or }, got "\'"'],
      ['[1 2]', 1, 4, 'expected a comma or ], got "2"'],
      ['{"a": True}', 1, 7, 'expected a value, got "T"'],
      ['{"a": NaN}', 1, 7, 'expected a value, got "N"'],
      ['{"a": "x\ny"}', 1, 9, 'expected the end of a text in double quotes, got "\\n"'],
      ['{"a": "\\d"}', 1, 8, 'expected an escape of JSON, got "\\\\"'],
      ['{"a": 1', 1, 8, 'expected a comma or }, got the end'],
      ['', 1, 1, 'expected a value, got the end'],
      ['{} {}', 1, 4, 'expected nothing more, got "{"'],
    ];
    for (const [text, line, column, what] of cases)
      assert.deepEqual(jsonFault(text), { line, column, what }, text);
  });

  test('is found in linear time, also in long texts and deep ones', () => {
    const long = `{"a": "${'x'.repeat(5_000_000)}", "b": ${'['.repeat(200_000)}`;
    const began = process.cpuUsage();
    assert.equal(jsonFault(long)?.what, 'expected a value or ], got the end');
    const { user, system } = process.cpuUsage(began);
    assert.ok(user + system < 5_000_000, `${user + system} µs`);
  });
});
