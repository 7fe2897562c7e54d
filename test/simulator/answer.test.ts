import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  assembleAnswer,
  type Answer,
  type AnswerOptions,
} from '../../simulator/completions/answer.js';
import { encode, IM_END } from '../../simulator/policy/tokenizer.js';

function assemble(generated: string | number[], options: Partial<AnswerOptions> = {}): Answer {
  const token_ids = typeof generated === 'string' ? encode(generated) : generated;
  const logprobs = token_ids.map((_id, i) => -(i + 1) / 16);
  return assembleAnswer(
    { token_ids, logprobs },
    {
      prompt: encode('Hello '),
      max_tokens: 100,
      min_tokens: 0,
      ignore_eos: false,
      stop: [],
      stop_token_ids: [],
      include_stop_str_in_output: false,
      skip_special_tokens: true,
      return_tokens_as_token_ids: false,
      ...options,
    },
  );
}

/** The text as it comes out token by token. */
function pieces({ text, text_ends }: Answer): string[] {
  return text_ends.map((end, i) => text.slice(text_ends[i - 1] ?? 0, end));
}

const ends = ({ finish_reason, stop_reason }: Answer) => [finish_reason, stop_reason];

describe('where an answer ends', () => {
  test('the end of sequence has no stop reason and no text, with or without special tokens', () => {
    for (const skip_special_tokens of [true, false]) {
      const answer = assemble('ab<|im_end|>c', { skip_special_tokens });
      assert.deepEqual(ends(answer), ['stop', null]);
      assert.deepEqual(answer.token_ids, [97, 98, IM_END]);
      assert.equal(answer.text, 'ab');
    }
  });

  test('the end of sequence is text like any other when it is ignored', () => {
    const options = { ignore_eos: true, skip_special_tokens: false, max_tokens: 4 };
    const answer = assemble('ab<|im_end|>c', options);
    assert.deepEqual(ends(answer), ['length', null]);
    assert.equal(answer.text, 'ab<|im_end|>c');
  });

  test('a stop token is in the ids and the stop reason, and in the text only if asked for, also under ignore_eos', () => {
    const options = { stop_token_ids: [99], ignore_eos: true };
    const answer = assemble('abcd', options);
    assert.deepEqual(ends(answer), ['stop', 99]);
    assert.deepEqual(answer.token_ids, [97, 98, 99]);
    assert.equal(answer.text, 'ab');
    assert.equal(assemble('abcd', { ...options, include_stop_str_in_output: true }).text, 'abc');
  });

  test('max_tokens ends it, and an unfinished character is never shown', () => {
    const answer = assemble('aé', { max_tokens: 2 });
    assert.deepEqual(ends(answer), ['length', null]);
    assert.equal(answer.text, 'a');
    assert.equal(answer.logprobs.length, 2);
  });

  test('min_tokens keeps stop tokens and stop strings from ending it', () => {
    assert.equal(assemble('abcb', { stop_token_ids: [98], min_tokens: 3 }).token_ids.length, 4);
    const answer = assemble('ab ab', { stop: ['ab'], min_tokens: 2 });
    assert.equal(answer.text, 'ab ');
    assert.equal(answer.token_ids.length, 5);
  });
});

describe('stop strings', () => {
  test('end the answer at the token that completes them and leave the text before', () => {
    const answer = assemble('go <action>up</action> more', { stop: ['</action>', 'up'] });
    assert.deepEqual(ends(answer), ['stop', 'up']);
    assert.equal(answer.text, 'go <action>');
    assert.equal(answer.token_ids.length, 'go <action>up'.length);
  });

  test('stay in the text when asked for', () => {
    const options = { stop: ['</action>'], include_stop_str_in_output: true };
    const answer = assemble('go <action>up</action> more', options);
    assert.deepEqual(ends(answer), ['stop', '</action>']);
    assert.equal(answer.text, 'go <action>up</action>');
    assert.ok(pieces(answer).every((piece) => piece.length === 1));
  });

  test('hold the text back by their length less one, until the end', () => {
    const answer = assemble('abcdef', { stop: ['ZZZ', 'Q'], max_tokens: 6 });
    assert.deepEqual(pieces(answer), ['', '', 'a', 'b', 'c', 'def']);
  });

  test('are never seen in part, wherever they begin', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '😀') });
    const stops = fc.array(
      letters.filter((stop) => stop !== ''),
      { minLength: 1, maxLength: 2 },
    );
    fc.assert(
      fc.property(letters, stops, (generated, stop) => {
        const answer = assemble(generated, { stop });
        const hits = stop.map((one) => generated.indexOf(one)).filter((at) => at !== -1);
        assert.equal(answer.finish_reason === 'stop', hits.length > 0);
        assert.equal(pieces(answer).join(''), answer.text);
        assert.ok(pieces(answer).every((piece) => !/\p{Cs}/u.test(piece)));
        assert.ok(generated.startsWith(answer.text));
        assert.ok(stop.every((one) => !answer.text.includes(one)));
      }),
    );
  });

  test('match the text of a prompt that ends inside a character, as in vLLM', () => {
    const answer = assemble([0xa9, 97], { prompt: [...encode('Hello '), 0xc3], stop: ['Hello'] });
    assert.deepEqual(ends(answer), ['stop', 'Hello']);
    assert.equal(answer.text, '');
    assert.equal(answer.token_ids.length, 1);
  });
});

describe('names of tokens', () => {
  test('have offsets counted in characters', () => {
    const answer = assemble('é😀a');
    assert.deepEqual(answer.names, ['', 'é', '', '', '', '😀', 'a']);
    assert.deepEqual(answer.name_offsets, [0, 0, 1, 1, 1, 1, 2]);
  });

  test('are ids when asked for', () => {
    const answer = assemble('ab', { return_tokens_as_token_ids: true });
    assert.deepEqual(answer.names, ['token_id:97', 'token_id:98']);
    assert.deepEqual(answer.name_offsets, [0, 11]);
  });
});
