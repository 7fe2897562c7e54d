import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aligned, gained, outcomes, seconds, tick } from '../../../viewer/page/words.js';

test('numbers of a column have digits of one worth below each other, but none is rounded to 0', () => {
  assert.deepEqual([1, 0.16, -2.4867, 1234.5, 0].map(aligned), [
    '1.000',
    '0.160',
    '−2.487',
    '1,234.500',
    '0.000',
  ]);
  assert.deepEqual([0.00012, -1e-7, null].map(aligned), ['0.00012', '−0.0000001', '–']);
});

test('a change says its sign', () => {
  assert.deepEqual([0.25, -0.25, 0, null].map(gained), ['+0.250', '−0.250', '0.000', '–']);
});

test('the end of an axis has room for six characters', () => {
  assert.deepEqual([0.22391, -0.67671, 12345].map(tick), ['0.224', '−0.677', '12,300']);
});

test('what has become of rollouts leaves out what none of them did', () => {
  assert.equal(
    outcomes({ 'with a reward': 10, failed: 6, unfinished: 0 }, 16),
    '10 with a reward, 6 failed, of 16',
  );
  assert.deepEqual([outcomes({ failed: 0 }, 16), outcomes({}, null)], ['of 16', '–']);
});

test('no time is 0 s', () => {
  assert.deepEqual([0, 0.0004, 0.2, 99.96, 100].map(seconds), [
    '0 s',
    '<1 ms',
    '200 ms',
    '100 s',
    '1 min 40 s',
  ]);
});
