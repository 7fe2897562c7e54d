import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { idsAfterGeneration } from '../../src/model/turn/turn-end.js';

const END = 9;
const ids = fc.array(fc.nat({ max: 3 }), { maxLength: 6 });

describe('what is appended behind a generation', () => {
  test('ends its turn where it was cut, and not a second time where it has ended', () => {
    const rendered = fc.tuple(ids, ids).map(([close, rest]) => [END, ...close, END, ...rest]);
    fc.assert(
      fc.property(ids, rendered, (said, behind) => {
        assert.deepEqual(idsAfterGeneration(said, behind), behind);
        assert.deepEqual(idsAfterGeneration([...said, END], behind), behind.slice(1));
      }),
    );
  });

  test('leaves out all that the generation has said of the end, as with a stop string of several tokens', () => {
    assert.deepEqual(idsAfterGeneration([1, 2, END, 4], [END, 4, 5, 6]), [5, 6]);
    assert.deepEqual(idsAfterGeneration([1, 2, END, 4], [END, 5, 6]), [END, 5, 6]);
  });

  test('is all of it where nothing was generated', () => {
    assert.deepEqual(idsAfterGeneration([], [END, 5]), [END, 5]);
  });
});
