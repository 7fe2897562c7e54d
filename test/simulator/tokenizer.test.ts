import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createTextStream, decode, encode } from '../../simulator/policy/tokenizer.js';

const SHOWN = { skip_special_tokens: false };
const HIDDEN = { skip_special_tokens: true };

const unicode = fc.string({ unit: 'binary' });
const special = fc.constantFrom('<|im_start|>', '<|im_end|>', '<|endoftext|>', '<|other|>');
const textWithSpecials = fc.array(fc.oneof(unicode, special)).map((parts) => parts.join(''));

describe('tokenizer', () => {
  test('every text comes back from its ids', () => {
    fc.assert(
      fc.property(textWithSpecials, (text) => {
        assert.equal(decode(encode(text), SHOWN), text);
      }),
    );
  });
});

describe('text of a stream', () => {
  test('its pieces add up to the text, and no piece ends inside a character', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }).filter((text) => !text.endsWith('\uFFFD')),
        (text) => {
          const stream = createTextStream({ prompt: [97], ...HIDDEN });
          const pieces = encode(text).map((id) => stream.push(id));
          assert.equal(pieces.join(''), text);
          assert.ok(pieces.every((piece) => !/\p{Cs}/u.test(piece)));
        },
      ),
    );
  });
});
