/** What becomes of a stream's group: `filter: zero_variance` asks what the trainer's arrays will say. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { groupOutcome } from '../../../../src/model/workflow-safe/trained-reward.js';

const outcomeOf = (rewards: number[], filter: 'zero_variance' | null = 'zero_variance') =>
  groupOutcome(rewards, { num_repeats: 4, filter });

describe('the outcome of a group', () => {
  test('is filtered where its rewards are one number in float32', () => {
    for (const rewards of [
      [0.1 + 0.2, 0.3],
      [1, 0.7 + 0.2 + 0.1],
      [0, -0],
      [0, 1e-60],
      [5, 5, 5],
    ])
      assert.equal(outcomeOf(rewards), 'filtered', String(rewards));
    for (const rewards of [
      [0.3, 0.30000004],
      [1, 0],
      [-1, 1],
      [1e30, -1e30],
      [0, 1e-40],
    ])
      assert.equal(outcomeOf(rewards), 'complete', String(rewards));
  });

  test('agrees with float32 arrays for any rewards', () => {
    const reward = fc.oneof(
      fc.double({ noNaN: true, min: -2, max: 2 }),
      fc.constantFrom(0.3, 0.1 + 0.2, 0, 1),
    );
    fc.assert(
      fc.property(fc.array(reward, { minLength: 2, maxLength: 5 }), (rewards) => {
        const [first, ...others] = new Float32Array(rewards);
        const isFlat = others.every((other) => other === first);
        assert.equal(outcomeOf(rewards), isFlat ? 'filtered' : 'complete');
      }),
    );
  });

  test('is untrained where none of its valid members has a token to train on, whatever their rewards', () => {
    const of = (rewards: number[], untrained: number) =>
      groupOutcome(rewards, { num_repeats: 4, filter: 'zero_variance', untrained });
    assert.equal(of([1, 0, 1], 3), 'untrained');
    assert.equal(of([0, 0], 2), 'untrained');
    // Masked members count in the baseline of the others.
    assert.equal(of([1, 0, 0], 2), 'complete');
    assert.equal(of([0, 0, 0], 2), 'filtered');
    assert.equal(of([1], 1), 'failed');
    const unfiltered = { num_repeats: 4, filter: null, untrained: 2 };
    assert.equal(groupOutcome([1, 0], unfiltered), 'complete');
  });

  test('is complete without a filter, and failed below two valid members of several', () => {
    assert.equal(outcomeOf([1, 1], null), 'complete');
    assert.equal(outcomeOf([1]), 'failed');
    assert.equal(outcomeOf([], null), 'failed');
    assert.equal(groupOutcome([1], { num_repeats: 1, filter: null }), 'complete');
  });
});
