import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  groupsAtOnce,
  groupsProblem,
  mostGroups,
} from '../../../src/model/workflow-safe/groups.js';
import { waitMs } from '../../../src/model/workflow-safe/durations.js';
import { MOST_SLICES } from '../../../src/model/workflow-safe/slices.js';

describe('update groups', () => {
  test('takes a place and a wait of at most ten minutes, each with a default', () => {
    for (const input of [{ after: 0 }, { after: 7, wait: '10m' }, { wait: '1s' }])
      assert.equal(groupsProblem(input), null);
    assert.equal(waitMs({}), 60_000);
    assert.equal(waitMs({ wait: '2s' }), 2000);
  });

  test('names the field that is wrong', () => {
    const problems = [{ after: -1 }, { wait: '11m' }, { wait: 5 }, { before: 1 }].map(
      groupsProblem,
    );
    const [after, long, number, unknown] = problems;
    assert.equal(after, 'after: expected an integer of at least 0, got -1');
    assert.equal(long, 'wait: expected at most 10m, got "11m"; ask again instead');
    assert.match(number ?? '', /^wait: expected a duration such as "30s" or "1h", got 5/);
    assert.match(unknown ?? '', /^before: unknown field/);
  });

  test('has no more answers than a history has room for, whatever the size of the batch', () => {
    for (const groups of [1, 200, 201, 8192, MOST_SLICES * 300]) {
      const answers = Math.ceil(groups / Math.min(groupsAtOnce(groups), mostGroups(1)));
      assert.ok(answers <= MOST_SLICES, `${answers} answers for ${groups} groups`);
    }
    assert.equal(groupsAtOnce(128), 1);
    assert.deepEqual([1, 16, 300].map(mostGroups), [300, 18, 1]);
  });
});
