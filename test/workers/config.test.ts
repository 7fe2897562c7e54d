import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Config } from '../../src/workers/config.js';

const withService = (more: object) => ({
  generation: { default: { kind: 'vllm', base_urls: ['http://a/v1', 'http://b/v1'], ...more } },
  environments: {},
});

describe('worker.memory', () => {
  const problemsWith = (memory: unknown): string[] =>
    Config.safeParse({ ...withService({}), worker: { memory } }).error?.issues.map(
      ({ message }) => message,
    ) ?? [];

  test('is a size that a process can have', () => {
    for (const memory of ['256MiB', '1GiB', '1.5GiB', '1048576GiB'])
      assert.deepEqual(problemsWith(memory), []);
  });

  for (const [memory, says] of [
    ['0MiB', /^expected a size such as 64MiB or 1GiB, got "0MiB"$/],
    ['0.1MiB', /^expected 256MiB or more, got "0.1MiB"$/],
    ['255MiB', /^expected 256MiB or more, got "255MiB"$/],
    [
      '100000000000000000000GiB',
      /^expected a size of at most 1048576GiB, got "100000000000000000000GiB"$/,
    ],
    [`${'9'.repeat(400)}GiB`, /^expected a size of at most 1048576GiB/],
    ['-1GiB', /^expected a size such as/],
    ['1000', /^expected a size such as/],
  ] as const) {
    test(`cannot be ${memory.slice(0, 30)}`, () => {
      const problems = problemsWith(memory);
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? '', says);
    });
  }
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
