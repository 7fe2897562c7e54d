/** Which tokens of a row train. That rows of any journal train as before is held in test/python/package.test.ts. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isUntrained } from '../../src/model/journal/outcome.js';
import type { Row } from '../../src/model/results/row.js';
import { trainMask } from '../../src/model/results/train-mask.js';
import { inStep } from '../../src/model/stream/step-row.js';
import { arbitraryRollout } from '../fakes/arbitrary-row.js';

const said = (ids: number[]): Row['message_log'][number] => ({
  role: 'assistant',
  content: '',
  token_ids: ids,
  generation_logprobs: ids.map(() => -1),
});
const seen = (ids: number[]): Row['message_log'][number] => ({
  role: 'user',
  content: '',
  token_ids: ids,
});

/** Prompt 0 and 1, sampled 2 and 3, observation 4, sampled 5, an empty observation, sampled 6. */
const LOG = [seen([10, 11]), said([12, 13]), seen([14]), said([15]), seen([]), said([16])];
const row = { message_log: LOG, prompt_tokens: 2 };

describe('the tokens of a row that train', () => {
  test('are those that the policy sampled, neither prompt nor observations', () => {
    assert.deepEqual(trainMask(row), [
      { start: 2, end: 4 },
      { start: 5, end: 7 },
    ]);
  });

  test('are the same without logprobs, where messages say that they were sampled', () => {
    const bare = LOG.map(({ generation_logprobs, ...message }) =>
      generation_logprobs === undefined ? message : { ...message, sampled: true as const },
    );
    assert.deepEqual(trainMask({ ...row, message_log: bare }), trainMask(row));
  });

  test('are none of the prompt, whose messages may have logprobs from elsewhere', () => {
    const log = [said([10, 11]), ...LOG.slice(1)];
    assert.deepEqual(trainMask({ ...row, message_log: log }), trainMask(row));
  });

  test('are without those that are masked, which are counted by generated tokens', () => {
    const masked = [
      { start: 0, end: 1 },
      { start: 2, end: 3 },
    ];
    assert.deepEqual(trainMask({ ...row, masked }), [
      { start: 3, end: 4 },
      { start: 6, end: 7 },
    ]);
    assert.deepEqual(trainMask({ ...row, masked: [{ start: 1, end: 3 }] }), [
      { start: 2, end: 3 },
      { start: 6, end: 7 },
    ]);
    assert.deepEqual(trainMask({ ...row, masked: [{ start: 0, end: 4 }] }), []);
  });

  test('are none of a failure, of a row without tokens, and where loss_multiplier is 0 in float32', () => {
    const failure = { type: 'TimedOut', message: 'late', turn: 1 };
    assert.deepEqual(trainMask({ ...row, failure }), []);
    assert.deepEqual(trainMask({ message_log: [], prompt_tokens: 0 }), []);
    for (const loss_multiplier of [0, 1e-50])
      assert.deepEqual(trainMask({ ...row, loss_multiplier }), []);
    for (const loss_multiplier of [0.5, 1e-40])
      assert.deepEqual(trainMask({ ...row, loss_multiplier }), trainMask(row));
  });

  test('are decided anew where a step masks what is too old for it, and only there', () => {
    const versions = [
      { start: 0, end: 2, version: '5' },
      { start: 2, end: 4, version: '8' },
    ];
    const whole = { ...row, row: 3, policy_versions: versions, train_mask: trainMask(row) };
    const step = { step: 2, version: 9, max_lag: 1, born: new Map([[3, 5]]) };
    const maskOf = (masks: boolean): unknown =>
      inStep({ row: whole as unknown as Row, summary: {} as never }, { ...step, masks }).row
        .train_mask;
    assert.deepEqual(maskOf(true), [{ start: 5, end: 7 }]);
    assert.deepEqual(maskOf(false), whole.train_mask);
  });

  test('are none exactly where the filter of a stream takes a valid rollout for untrained', () => {
    let [trained, untrained] = [0, 0];
    for (const { row: of, trajectory } of fc.sample(arbitraryRollout, 3000)) {
      // Of an agent without tokens the filter knows nothing; what a step masks comes behind it.
      if (of.failure !== undefined || of.untokenized !== undefined || of.masked !== undefined)
        continue;
      assert.equal(of.train_mask.length === 0, isUntrained(trajectory), JSON.stringify(of));
      if (of.train_mask.length === 0) untrained += 1;
      else trained += 1;
    }
    assert.ok(Math.min(trained, untrained) > 50, `${trained} trained, ${untrained} untrained`);
  });
});
