import assert from 'node:assert/strict';
import test from 'node:test';
import { mostFrequentText, oneFailure, sumOf } from '../../../src/model/workflow-safe/failures.js';

const raised = (message: string) => oneFailure({ type: 'EnvironmentFailed', message });
const late = oneFailure({ type: 'TimedOut', message: 'rollout_timeout passed' });

test('the cause of most failures is named with their number and the first message', () => {
  const sum = sumOf([late, undefined, sumOf([raised('no such table'), raised('no such row')])]);
  assert.equal(
    mostFrequentText(sum),
    'most frequent failure: EnvironmentFailed (2 rollouts): no such table',
  );
  assert.match(mostFrequentText(late) ?? '', /^most frequent failure: TimedOut \(1 rollout\): /);
});

test('without failures there is no cause', () => {
  assert.equal(mostFrequentText(sumOf([undefined, {}])), null);
});

test('a message of any length takes little room in a signal', () => {
  assert.ok(JSON.stringify(raised('x'.repeat(4000))).length < 400);
});
