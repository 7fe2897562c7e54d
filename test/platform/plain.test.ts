import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { named, plain, plainJson, plainLine, quoted } from '../../src/platform/plain.js';
import { processorTime_ms } from '../harness/processor-time.js';

/** Everything that acts instead of being shown, but for newline and tab. */
const ACTING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/u;

/** Texts full of them. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        ...[
          '\u001b[31m',
          '\u001b]0;title\u0007',
          '\u001b]8;;http://x\u001b\\',
          '\u009b2J',
          '\u001b',
          '\u202e',
          '\u2066',
        ],
        ...[
          '\u200b',
          '\u2028',
          '\ud800',
          '\udc00',
          '`',
          '``',
          '\r\n',
          '\n',
          '\t',
          '|',
          '<img src=x>',
          '[a](http://x)',
        ],
      ),
    ),
    { maxLength: 20 },
  )
  .map((parts) => parts.join(''));

describe('plain text', () => {
  test('holds nothing that acts, is no longer than what came, and stays as it is from then on', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const made = plain(text);
        assert.doesNotMatch(made, ACTING);
        assert.ok(made.length <= text.length);
        assert.equal(plain(made), made);
        assert.doesNotMatch(plainLine(text), /[\n\t]/);
      }),
    );
  });

  test('is what it was where nothing acts: scripts, emoji, lines and tabs', () => {
    for (const text of ['a\tb\nc', 'Füße, 你好, שלום, नमस्ते', '❤️ 👍🏽', 'x < y && `z` | "w"'])
      assert.equal(plain(text), text);
  });

  for (const [what, text, expected] of [
    ['colours are gone', '\u001b[1;31mred\u001b[0m', 'red'],
    ['a title is not set', 'a\u001b]0;owned\u0007b', 'ab'],
    ['a link is its text', '\u001b]8;;http://evil\u001b\\click\u001b]8;;\u001b\\', 'click'],
    ['a sequence without an end hides nothing', '\u001b]0;the rest', ' ]0;the rest'],
    [
      'a sequence that only appears once another is gone has no effect',
      '\u001b[\u001b[0m31mx',
      ' [31mx',
    ],
    ['the order of letters is theirs', 'x\u202egnp.exe', 'x�gnp.exe'],
    ['what is not seen is seen', 'sam\u200bples', 'sam�ples'],
    ['half a character is one that is missing', 'a\ud83d', 'a�'],
    [
      'a carriage return overwrites nothing',
      'all is well\rfailed\r\nnext',
      'all is well failed\nnext',
    ],
    ['separators break no line', 'a\u2028b\u0085c', 'a b c'],
  ] as const) {
    test(`of escape sequences and the like: ${what}`, () => {
      assert.equal(plain(text), expected);
    });
  }

  test('takes time in proportion to the text, whatever it contains', () => {
    for (const unit of ['\u009d', '\u001b]', '\u001b[0', '\u001b[ ', '\u200b', '` ']) {
      const text = unit.repeat(200_000 / unit.length);
      const started = processorTime_ms();
      quoted(text);
      plainJson(text);
      assert.ok(processorTime_ms() - started < 2000, JSON.stringify(unit));
    }
  });
});

describe('quoted in Markdown', () => {
  test('a text is inside its fence, whatever backticks it has, in one line', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const made = quoted(text);
        const [fence = ''] = /^`+/.exec(made) ?? [];
        assert.ok(made.startsWith(`${fence} `) && made.endsWith(` ${fence}`));
        // CommonMark: a code span ends at the first run of backticks as long as the one that it began with.
        const inside = made.slice(fence.length, -fence.length);
        const runs = (inside.match(/`+/g) ?? []).map((run) => run.length);
        assert.ok(!runs.includes(fence.length));
        assert.equal(inside.slice(1, -1), plainLine(text));
        assert.doesNotMatch(made, /\n/);
      }),
    );
  });
});

describe('a name in Markdown', () => {
  test('is kept as it is where it has no meaning, and is quoted elsewhere', () => {
    for (const name of ['sliding_puzzle', 'a', 'my-agent-2', 'x__y'])
      assert.equal(named(name), name);
    for (const name of [
      '_x_',
      '-',
      '1.',
      'www.evil.example',
      '<b>',
      '[a](b)',
      'a b',
      '`',
      'a\n',
      '',
    ])
      assert.equal(named(name), quoted(name));
  });
});

describe('JSON for people', () => {
  test('is the same value, and shows no character that acts', () => {
    const line = fc.record(
      { msg: hostile, list: fc.array(hostile, { maxLength: 3 }) },
      { noNullPrototype: true },
    );
    fc.assert(
      fc.property(line, (value) => {
        const made = plainJson(JSON.stringify(value));
        assert.doesNotMatch(made, ACTING);
        assert.deepEqual(JSON.parse(made), value);
      }),
    );
  });
});
