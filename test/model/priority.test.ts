import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { BatchRequest } from '../../src/model/batch-request.js';
import { priorityOf } from '../../src/model/priority.js';
import { BATCH_ID } from '../../src/model/workflow-safe/rollout-id.js';

const USUAL = { priority: 3, share: 1 };

describe('the priority of a batch’s tasks', () => {
  test('is that of its request, with a share of its own', () => {
    assert.deepEqual(priorityOf('eval-17', { priority: 1, share: 0.25 }), {
      priorityKey: 1,
      fairnessKey: 'eval-17',
      fairnessWeight: 0.25,
    });
  });

  test('has a key that Temporal takes, another one for each id', () => {
    const ids = fc.uniqueArray(fc.stringMatching(BATCH_ID), { minLength: 2, maxLength: 2 });
    fc.assert(
      fc.property(ids, fc.nat({ max: 119 }), (given, length) => {
        // Long ids with one beginning are the interesting ones.
        const long = given.map((id) => `${'x'.repeat(length)}${id}`.slice(0, 120));
        const keys = long.map((id) => priorityOf(id, USUAL).fairnessKey);
        for (const key of keys) assert.ok(Buffer.byteLength(key) <= 64, key);
        assert.equal(new Set(keys).size, new Set(long).size);
      }),
    );
  });

  test('is refused out of Temporal’s ranges, by field', () => {
    const wrong = (change: object): string | undefined =>
      BatchRequest.safeParse({
        samples: [{}],
        generation: {},
        ...change,
      }).error?.issues[0]?.path.join('.');
    assert.equal(wrong({}), undefined);
    for (const change of [
      { priority: 0 },
      { priority: 6 },
      { priority: 1.5 },
      { share: 0 },
      { share: 1001 },
    ])
      assert.equal(wrong(change), Object.keys(change)[0]);
  });
});
