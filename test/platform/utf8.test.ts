import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { cut, cutToBytes, utf8Length } from '../../src/platform/utf8.js';

const text = fc.string({ unit: 'binary', maxLength: 40 });

describe('utf8Length', () => {
  test('is what the encoder says, whatever the characters', () => {
    fc.assert(
      fc.property(text, (given) => {
        assert.equal(utf8Length(given), Buffer.byteLength(given));
      }),
    );
  });

  test('changes where the encoding does', () => {
    for (const point of [0, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff]) {
      const character = String.fromCodePoint(point);
      assert.equal(utf8Length(character), Buffer.byteLength(character), point.toString(16));
    }
  });
});

describe('cutToBytes', () => {
  test('keeps what fits as it is', () => {
    assert.equal(cutToBytes('aé漢😀', 10), 'aé漢😀');
    assert.equal(cutToBytes('', 0), '');
  });

  test('cuts before the character that does not fit', () => {
    assert.equal(cutToBytes('aé漢😀', 9), 'aé漢…');
    assert.equal(cutToBytes('aé漢😀', 5), 'aé…');
    assert.equal(cutToBytes('abc', 0), '…');
  });

  test('keeps the longest beginning of whole characters', () => {
    fc.assert(
      fc.property(text, fc.nat({ max: 80 }), (given, limit) => {
        const short = cutToBytes(given, limit);
        if (utf8Length(given) <= limit) {
          assert.equal(short, given);
          return;
        }
        const kept = short.slice(0, -1);
        assert.ok(short.endsWith('…') && given.startsWith(kept) && utf8Length(kept) <= limit);
        const next = String.fromCodePoint(given.codePointAt(kept.length) ?? 0);
        assert.ok(utf8Length(kept + next) > limit);
      }),
    );
  });
});

describe('cut', () => {
  test('keeps the longest beginning of whole characters that has at most so many units', () => {
    fc.assert(
      fc.property(text, fc.nat({ max: 80 }), (given, units) => {
        const kept = cut(given, units);
        if (given.length <= units) {
          assert.equal(kept, given);
          return;
        }
        const beginning = kept.slice(0, -1);
        assert.ok(kept.endsWith('…') && given.startsWith(beginning) && beginning.length <= units);
        assert.equal(kept.isWellFormed(), true);
        const next = String.fromCodePoint(given.codePointAt(beginning.length) ?? 0);
        assert.ok(beginning.length + next.length > units);
      }),
    );
  });
});
