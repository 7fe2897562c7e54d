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

test('a failure names the first rollout that has it, if anyone said which', () => {
  const of = (example: string) => oneFailure({ type: 'StoreFault', message: 'disk full', example });
  const says = (...all: ReturnType<typeof of>[]) => mostFrequentText(sumOf(all));
  assert.equal(
    says(of('b/3-0'), of('b/1-0')),
    'most frequent failure: StoreFault (2 rollouts, such as b/3-0): disk full',
  );
  const silent = oneFailure({ type: 'StoreFault', message: 'older' });
  assert.equal(
    says(silent, of('b/1-0')),
    'most frequent failure: StoreFault (2 rollouts, such as b/1-0): older',
  );
});
