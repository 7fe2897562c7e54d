import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { componentsOf } from '../../src/model/agent/rewards.js';
import { problemsOf } from '../../src/model/problems.js';
import { Sample } from '../../src/model/sample.js';
import { listOf } from '../../src/model/untrusted.js';
import { processorTime_ms } from '../harness/processor-time.js';

const MANY = 500_000;
const Named = listOf(z.strictObject({ name: z.string() }));

const said = (schema: z.ZodType, input: unknown): string[] => {
  const { error } = schema.safeParse(input);
  return error === undefined
    ? []
    : problemsOf(error, input).map(({ where, what }) => `${where}: ${what}`);
};

function within2s<T>(run: () => T): T {
  const began = processorTime_ms();
  const result = run();
  assert.ok(processorTime_ms() - began < 2000, `${processorTime_ms() - began} ms`);
  return result;
}

describe('a list from outside', () => {
  test('is what its items are', () => {
    const names = Array.from({ length: 200 }, () => ({ name: 'a' }));
    assert.deepEqual(Named.parse(names), names);
    assert.deepEqual(said(Named, 'a'), ['(input): expected array, got "a"']);
  });

  test('has all that is wrong with it reported where it is short', () => {
    assert.deepEqual(said(Named, [{ name: 1 }, { name: '' }, 0]), [
      '0.name: expected string, got 1',
      '2: expected object, got 0',
    ]);
  });

  test('has the first wrong entry reported where it is long', () => {
    const names = [{ name: '' }, { name: '', a: 1 }, ...Array<number>(MANY).fill(0)];
    assert.equal(within2s(() => said(Named, names)).join(), '1.a: unknown field');
  });
});

test("an agent's component beyond what float32 has is refused, though its reward is their sum", () => {
  // The reward's own limit is that of its components, which the journal keeps.
  assert.deepEqual(componentsOf({ reward_components: { a: 1e39, b: -1e39 } }, { reward: 0 }), {
    fault: {
      type: 'EnvironmentRejected',
      message: 'reward_components.a: expected a number between -1e+30 and 1e+30, got 1e+39',
    },
  });
  assert.deepEqual(componentsOf({ reward_components: { a: 1, b: -0.5 } }, { reward: 0.5 }), {
    rewards: { a: 1, b: -0.5 },
  });
});

test("half a million components of an agent's reward cost one report", () => {
  for (const value of [0, 'x']) {
    const reward_components = Object.fromEntries(
      Array.from({ length: MANY }, (_, i) => [i, value]),
    );
    assert.deepEqual(
      within2s(() => componentsOf({ reward_components }, { reward: 0 })),
      {
        fault: {
          type: 'EnvironmentRejected',
          message: 'expected at most 256 reward_components, got 500000',
        },
      },
    );
  }
});

test('half a million wrong messages of a sample cost one report', () => {
  const sample = { task_name: 'a', message_log: Array(MANY).fill(0) };
  assert.deepEqual(
    within2s(() => said(Sample, sample)),
    ['message_log.0: expected object, got 0'],
  );
});
