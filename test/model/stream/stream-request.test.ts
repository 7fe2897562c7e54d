import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StreamRequest, playedAs } from '../../../src/model/stream/stream-request.js';

const LEAST = { samples: { path: 'samples.jsonl' }, groups_per_step: 4, num_repeats: 8 };

const problemOf = (change: Record<string, unknown>): string => {
  const { error } = StreamRequest.safeParse({ ...LEAST, ...change });
  return error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ') ?? '';
};

describe('the request of a stream', () => {
  test('replaces as many failed members of a group as it has, unless it says how many', () => {
    assert.equal(StreamRequest.parse(LEAST).max_replacements, 8);
    assert.equal(StreamRequest.parse({ ...LEAST, max_replacements: 0 }).max_replacements, 0);
  });

  test('parses again as it was put', () => {
    const once = StreamRequest.parse(LEAST);
    assert.deepEqual(StreamRequest.parse(JSON.parse(JSON.stringify(once))), once);
  });

  test('is played as a batch that refills is', () => {
    const { completion, stream, ...batch } = playedAs(StreamRequest.parse(LEAST));
    assert.deepEqual(completion, { policy: 'refill', max_replacements: 8 });
    assert.equal(stream?.groups_per_step, 4);
    assert.ok(!('groups_per_step' in batch));
  });

  test('refuses by field', () => {
    assert.match(problemOf({ completion: { policy: 'complete' } }), /completion/);
    assert.match(problemOf({ groups_per_step: 0 }), /groups_per_step/);
    assert.match(problemOf({ when_stale: 'never' }), /when_stale/);
    assert.match(problemOf({ filter: 'all' }), /filter/);
    assert.match(problemOf({ groups_per_step: 500, max_lag: 2 }), /500 × 3 = 1500/);
    assert.equal(problemOf({ groups_per_step: 500, max_lag: 1 }), '');
  });

  test('refuses a filter that would take out every group', () => {
    const filter = 'zero_variance';
    assert.equal(
      problemOf({ filter, num_repeats: 1 }),
      'num_repeats: expected at least 2 with filter zero_variance, got 1: the rewards of one rollout are all the same, so no group is delivered',
    );
    assert.match(
      problemOf({ filter, num_repeats: undefined }),
      /^num_repeats: expected at least 2/,
    );
    assert.equal(
      problemOf({ filter, max_rollout_turns: 0 }),
      'max_rollout_turns: expected at least 1 with filter zero_variance, got 0: nothing is sampled, so no group is delivered',
    );
    assert.equal(problemOf({ filter, num_repeats: 2, max_rollout_turns: 1 }), '');
    assert.equal(problemOf({ num_repeats: 1, max_rollout_turns: 0 }), '');
  });

  test('refuses the version of weights that will change', () => {
    assert.equal(
      problemOf({ policy_version: '36' }),
      'policy_version: expected null in a stream, got "36": the weights of a stream change. Rows say which version sampled each token',
    );
    assert.equal(problemOf({ policy_version: null }), '');
    assert.equal(StreamRequest.parse(LEAST).policy_version, null);
  });
});
