/** Widths as terminals have them, and cuts that no terminal shows as something else. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { wrapped } from '../../src/client/show/wrapping.js';
import { inColumns, renderLine } from '../../src/client/text-line.js';
import { clustersOf, headOf, widthOf } from '../../src/client/text-width.js';
import { plainLine } from '../../src/platform/plain.js';

const WIDTHS: readonly (readonly [string, string, number])[] = [
  ['ASCII', 'reward 0.5', 10],
  ['CJK', '奖励', 4],
  ['CJK of extension B', '𠀀𠮷', 4],
  ['CJK of extension G', '\u{30000}', 2],
  ['Hangul', '한글', 4],
  ['Hangul in jamo', '\u1112\u1161\u11ab', 2],
  ['half-width kana', 'ｶﾞ', 2],
  ['an accent of its own', 'e\u0301', 1],
  ['Thai with marks', 'ที่', 1],
  ['an emoji', '🎉', 2],
  ['an emoji with a tone of skin', '👍🏽', 2],
  ['a text sign as an emoji', '❤\ufe0f', 2],
  ['a text sign', '❤', 1],
  ['a flag', '🇩🇪', 2],
  ['two flags', '🇩🇪🇯🇵', 4],
  ['a keycap', '1\ufe0f\u20e3', 2],
  // Text for people has no joiners: its parts are shown side by side.
  ['a family without joiners', plainLine('👨\u200d👩\u200d👧'), 6],
];

/** What policies, environments and samples write, with whatever joins. */
const TEXT = fc
  .array(
    fc.oneof(
      fc.constantFrom(...WIDTHS.map(([, text]) => text)),
      fc.constantFrom(' ', '\u0301', '\u20e3', '🇩', '🏽', '\u200d', '\ufe0f', '\u1112', '\u0e33'),
      fc.string({ unit: 'binary' }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => plainLine(parts.join('')));

describe('the width of', () => {
  for (const [what, text, width] of WIDTHS)
    test(`${what} is ${width}`, () => {
      assert.equal(widthOf(text), width);
    });

  test('any text is that of its clusters, which are the text', () => {
    fc.assert(
      fc.property(TEXT, (text) => {
        const clusters = [...clustersOf(text)];
        assert.equal(clusters.map((cluster) => cluster.text).join(''), text);
        const long = clusters.reduce((sum, { columns }) => sum + columns, 0);
        assert.ok(long >= widthOf(text), `${long} columns`);
      }),
    );
  });
});

describe('a text that is cut', () => {
  test('fits, is its beginning, and could not be longer by one cluster', () => {
    fc.assert(
      fc.property(TEXT, fc.nat(60), (text, columns) => {
        const head = headOf(text, columns);
        assert.ok(text.startsWith(head));
        assert.ok(widthOf(head) <= columns);
        const next = [...clustersOf(text.slice(head.length))][0];
        if (next !== undefined) assert.ok(widthOf(head) + next.columns > columns);
      }),
    );
  });

  test('fits into its line with the dots', () => {
    fc.assert(
      fc.property(TEXT, fc.integer({ min: 1, max: 60 }), (text, columns) => {
        assert.ok(widthOf(renderLine([text], { columns, colour: false })) <= columns);
      }),
    );
  });

  test('does not part a flag, an emoji and its tone, or a letter and its accent', () => {
    assert.equal(headOf('🇩🇪🇯🇵', 3), '🇩🇪');
    assert.equal(headOf('a👍🏽', 2), 'a');
    assert.equal(headOf('e\u0301e\u0301', 1), 'e\u0301');
  });

  test('fits into its lines, and has everything but blanks', () => {
    fc.assert(
      fc.property(TEXT, fc.integer({ min: 8, max: 60 }), (text, columns) => {
        const lines = wrapped(text, columns);
        for (const line of lines) assert.ok(widthOf(line) <= columns, JSON.stringify(line));
        const solid = (some: string): string => some.replaceAll(/\s/g, '');
        assert.equal(solid(lines.join('')), solid(text));
      }),
    );
  });

  test('takes time in proportion to its length, whatever it is made of', () => {
    const seconds = (run: () => unknown): number => {
      const began = process.cpuUsage().user;
      run();
      return (process.cpuUsage().user - began) / 1e6;
    };
    for (const part of ['a', '奖', '🇩🇪', '\u0301', '\u1112', 'e\u0301 ']) {
      const [some, eight] = [8_000, 64_000].map((length) => part.repeat(length / part.length));
      const once = seconds(() => wrapped(some ?? '', 60));
      const more = seconds(() => wrapped(eight ?? '', 60));
      assert.ok(more < 0.3 + 30 * once, `${JSON.stringify(part)}: ${once} s, then ${more} s`);
    }
  });

  test('costs no more than what is left of it', () => {
    const text = '🇩🇪'.repeat(1_000_000);
    const began = process.cpuUsage().user;
    for (let i = 0; i < 10; i++) renderLine([text], { columns: 60, colour: false });
    assert.ok(process.cpuUsage().user - began < 5e6, 'as if it were shown whole');
  });
});

test('the lines of a table are equally wide on a terminal, and the right one ends at its column', () => {
  const cell = fc
    .array(fc.constantFrom(...WIDTHS.map(([, text]) => text)), { maxLength: 4 })
    .map((texts) => texts.join(' '));
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell), { minLength: 1, maxLength: 5 }), (rows) => {
      const lines = inColumns(rows, (at) => at === 1);
      assert.equal(new Set(lines.map(widthOf)).size, 1, lines.join('\n'));
      for (const [at, [left, right]] of rows.entries()) {
        assert.ok(lines[at]?.startsWith(left));
        assert.ok(lines[at]?.endsWith(right));
      }
    }),
  );
});
