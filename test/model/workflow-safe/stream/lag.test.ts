import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { tooOldRuns } from '../../../../src/model/workflow-safe/stream/lag.js';

describe('tokens that are too old', () => {
  const at = { born: 15, version: 18, max_lag: 1 };

  test('are named as runs, and those that touch as one', () => {
    const runs = [
      { start: 0, end: 4, version: '15' },
      { start: 4, end: 9, version: '16' },
      { start: 9, end: 20, version: '17' },
      { start: 20, end: 22, version: '16' },
      { start: 22, end: 30, version: '18' },
    ];
    assert.deepEqual(tooOldRuns(runs, at), [
      { start: 0, end: 9 },
      { start: 20, end: 22 },
    ]);
  });

  test('a token of no known version may be as old as its group', () => {
    for (const version of [null, 'default']) {
      const runs = [{ start: 0, end: 4, version }];
      assert.deepEqual(tooOldRuns(runs, at), [{ start: 0, end: 4 }]);
      assert.deepEqual(tooOldRuns(runs, { ...at, born: 17 }), []);
    }
  });

  test('are those that a look at each token finds', () => {
    const versions = fc.array(fc.option(fc.integer({ min: 0, max: 6 }).map(String)));
    const place = fc.record({
      born: fc.integer({ min: 0, max: 3 }),
      version: fc.integer({ min: 0, max: 6 }),
      max_lag: fc.integer({ min: 0, max: 3 }),
    });
    fc.assert(
      fc.property(versions, place, (labels, { born, version, max_lag }) => {
        const runs = labels.map((label, start) => ({ start, end: start + 1, version: label }));
        const old = tooOldRuns(runs, { born, version, max_lag });
        const isOld = labels.map((label) => version - Number(label ?? born) > max_lag);
        assert.deepEqual(
          labels.map((_, at) => old.some(({ start, end }) => start <= at && at < end)),
          isOld,
        );
        assert.ok(old.every(({ start }, i) => i === 0 || old[i - 1]!.end < start));
      }),
    );
  });
});
