import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { hrefOf, parseAddress, parseRolloutId } from '../../../viewer/page/address.js';

describe('the address of a place', () => {
  test('any run, place and options come back from it', () => {
    const natural = fc.nat({ max: 1e6 });
    const places = fc.oneof(
      fc.record({ row: fc.constant(null), repeat: fc.constant(null) }),
      fc.record({ row: natural, repeat: fc.constant(null) }),
      fc.record({ row: natural, repeat: natural }),
    );
    const letters = fc.string({ minLength: 1, unit: 'grapheme' });
    const options = fc.dictionary(letters, letters);
    fc.assert(
      fc.property(
        fc.record({ run: letters, place: places, kept: options }),
        ({ run, place, kept }) => {
          const read = parseAddress(hrefOf({ run, ...place, options: kept }));
          assert.deepEqual(
            { ...read, options: { ...read?.options } },
            {
              run,
              ...place,
              options: Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== '')),
            },
          );
        },
      ),
    );
  });

  test('nothing is the list of runs, and what names no place is no address', () => {
    assert.equal(parseAddress('')?.run, null);
    assert.equal(parseAddress('#/')?.run, null);
    for (const wrong of ['#/a/b', '#/a/1-', '#/a/1-2-3', '#/a/1/2', '#/%zz'])
      assert.equal(parseAddress(wrong), null, wrong);
  });

  test('a rollout id of a batch with slashes is read from its end', () => {
    assert.deepEqual(parseRolloutId('a/b/3-0'), { run: 'a/b', row: 3, repeat: 0 });
    assert.equal(parseRolloutId('3-0'), null);
  });
});
