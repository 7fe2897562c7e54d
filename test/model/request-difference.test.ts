import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { differenceBetween } from '../../src/model/request-difference.js';

const THERE = { samples: { path: 'samples.jsonl' }, limit: 4, generation: { temperature: 0.5 } };

describe('two batch requests', () => {
  test('are the same where they differ only in defaults that one of them gives', () => {
    const here = { ...THERE, num_repeats: 1, generation: { temperature: 0.5, top_p: 1 } };
    assert.equal(differenceBetween(THERE, here), null);
  });

  test('differ by the first field, which is named with both values', () => {
    assert.equal(differenceBetween(THERE, { ...THERE, limit: 3 }), 'limit: 4 there, 3 here');
    assert.equal(
      differenceBetween(THERE, { ...THERE, generation: {} }),
      'generation.temperature: 0.5 there, 1 here',
    );
  });

  test('cannot be compared where ours is invalid: its own problem is the error', () => {
    assert.throws(() => differenceBetween(THERE, { ...THERE, limits: 4 }), {
      message: 'limits: unknown field; did you mean limit?',
    });
  });
});
