import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { renderChat } from '../../../src/dev/simulator/policy/chat-template.js';
import {
  createTextStream,
  decode,
  encode,
  END_OF_TEXT,
  IM_END,
  IM_START,
  logprobStrings,
  vocabularyStrings,
  VOCABULARY_SIZE,
} from '../../../src/dev/simulator/policy/tokenizer.js';

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

  test('ids are bytes, and special texts are one id each', () => {
    assert.deepEqual(encode('é<|im_start|>a<|im_end|><|endoftext|>'), [
      0xc3,
      0xa9,
      IM_START,
      97,
      IM_END,
      END_OF_TEXT,
    ]);
  });

  test('special tokens can be left out, and unknown ids always are', () => {
    const ids = [97, IM_END, VOCABULARY_SIZE, 98];
    assert.equal(decode(ids, HIDDEN), 'ab');
    assert.equal(decode(ids, SHOWN), 'a<|im_end|>b');
  });

  test('bytes that are no UTF-8 decode to the replacement character', () => {
    assert.equal(decode([0xe6, 0xbc, 97], SHOWN), '\uFFFDa');
  });

  test('messages are rendered as ChatML', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello world' },
    ];
    const text =
      '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello world<|im_end|>\n';
    assert.equal(renderChat(messages, { add_generation_prompt: false }), text);
    const open = renderChat(messages, { add_generation_prompt: true });
    assert.equal(open, `${text}<|im_start|>assistant\n`);
  });

  test('the vocabulary names every byte by a character of its own', () => {
    const bytes = Array.from({ length: 256 }, (_byte, i) => i);
    const names = vocabularyStrings(bytes);
    assert.equal(new Set(names).size, 256);
    assert.deepEqual(vocabularyStrings(encode('H \n\u00ad')), ['H', 'Ġ', 'Ċ', 'Â', 'Ń']);
    assert.deepEqual(vocabularyStrings([IM_END]), ['<|im_end|>']);
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

  test('an unfinished character is held back until it is complete or broken off', () => {
    const stream = createTextStream({ prompt: [97], ...HIDDEN });
    const pieces = [0xe6, 0xbc, 0xa2, 0xe6, 97].map((id) => stream.push(id));
    assert.deepEqual(pieces, ['', '', '漢', '', '\uFFFDa']);
  });

  test('a prompt that ends inside a character comes out with the answer', () => {
    const prompt = [...encode('<|im_start|>Hello '), 0xc3];
    const stream = createTextStream({ prompt, ...HIDDEN });
    assert.deepEqual(
      [0xa9, 97].map((id) => stream.push(id)),
      ['Hello é', 'a'],
    );
  });

  test('a token in logprobs is the character that it completes, or nothing', () => {
    assert.deepEqual(logprobStrings(encode('é漢a<|im_end|>')), [
      '',
      'é',
      '',
      '',
      '漢',
      'a',
      '<|im_end|>',
    ]);
    assert.deepEqual(logprobStrings([0xe6, 97, 0x80, 0xc3, 0xa9]), ['', 'a', '', '', 'é']);
  });
});
