import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Config } from '../../src/workers/config.js';

const withService = (more: object) => ({
  generation: { default: { kind: 'vllm', base_urls: ['http://a/v1', 'http://b/v1'], ...more } },
  environments: {},
});

describe('generations at once on one replica', () => {
  test('are left open where nothing is said, and a positive number otherwise', () => {
    const limitOf = (more: object) =>
      Config.parse(withService(more)).generation['default']?.max_concurrent;
    assert.equal(limitOf({}), null);
    assert.equal(limitOf({ max_concurrent: null }), null);
    assert.equal(limitOf({ max_concurrent: 32 }), 32);
  });

  for (const max_concurrent of [0, -1, 1.5, '32']) {
    test(`cannot be ${JSON.stringify(max_concurrent)}`, () => {
      const { error } = Config.safeParse(withService({ max_concurrent }));
      assert.deepEqual(error?.issues[0]?.path, ['generation', 'default', 'max_concurrent']);
    });
  }
});
