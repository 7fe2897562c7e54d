/** What a stream has said of an answer, without a decoder. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createStreamedText } from '../../src/gateway/deliver/telling.js';

const chunk = (offset: number, said: [token_ids: number[], text: string]) => ({
  offset,
  token_ids: said[0],
  text: said[1],
});

describe('the text of a stream', () => {
  test('is that of the chunks up to a token, and lags inside one', () => {
    const { heard, resumes, upTo } = createStreamedText(0);
    resumes();
    heard(chunk(0, [[1], 'a']));
    heard(chunk(1, [[2, 3], 'bc']));
    assert.deepEqual(
      [1, 2, 3].map((count) => upTo(count)),
      ['a', 'a', 'abc'],
    );
  });

  test('stays when tokens are labelled again', () => {
    const { heard, upTo } = createStreamedText(0);
    heard(chunk(0, [[1], 'a']));
    heard(chunk(1, [[2], 'b']));
    heard(chunk(0, [[1, 2], 'ab']));
    heard(chunk(1, [[2], '']));
    heard(chunk(2, [[3], 'c']));
    assert.equal(upTo(3), 'abc');
  });

  test('is unknown of an answer that another request continues, until its last token is dropped', () => {
    const { heard, resumes, upTo } = createStreamedText(0);
    heard(chunk(0, [[195], '']));
    resumes();
    heard(chunk(1, [[169], '']));
    heard(chunk(2, [[65], 'A']));
    assert.equal(upTo(3), null);
    // All tokens again, with another version and what is known of their text.
    heard(chunk(0, [[195, 169, 65], 'A']));
    assert.equal(upTo(3), null);
    heard(chunk(0, [[], '']));
    resumes();
    heard(chunk(0, [[1, 2], 'ab']));
    assert.equal(upTo(2), 'ab');
    heard(chunk(1, [[], '']));
    assert.equal(upTo(1), null);
  });

  test('is unknown of tokens that were there before, and of an engine that says none', () => {
    const before = createStreamedText(5);
    before.resumes();
    before.heard(chunk(5, [[1], 'x']));
    assert.equal(before.upTo(6), null);
    const silent = createStreamedText(0);
    silent.heard(chunk(0, [[1, 2], '']));
    assert.equal(silent.upTo(2), null);
  });
});
