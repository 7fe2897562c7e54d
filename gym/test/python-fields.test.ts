/** Keyword arguments of `durable_rollouts.gym`, as the commands read them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { python, skip } from '../../test/harness/python-package.js';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { EFFECTIVE_KEYS } from '../config/known-keys.js';
import { parseOverrides } from '../config/overrides.js';
import { RolloutAggregationConfig, RolloutCollectionConfig } from '../config/schemas.js';
import { formatJson } from '../json/exact.js';
import type { z } from 'zod';

const answerOf = (program: string): unknown =>
  JSON.parse(
    python(['-c', `import json; from durable_rollouts.gym import fields; ${program}`], {
      PYTHONPATH: PYTHON_PACKAGES,
    }),
  );

describe('keyword arguments of Python', { skip }, () => {
  test('are the fields of the commands, and the keys that matter to them', () => {
    const found = answerOf(
      'import inspect; from durable_rollouts import gym; names = lambda call, of: sorted({*inspect.signature(call).parameters} - {"fields", "config", "arguments", "show"} | {*of.__annotations__}); print(json.dumps([names(gym.collect, fields.CollectFields), names(gym.aggregate, fields.AggregateFields)]))',
    );
    // What the command refuses is no keyword. An old name is no field of its own.
    const namesOf = ({ shape }: z.ZodObject): string[] => [
      ...Object.entries(shape).flatMap(([name, field]) =>
        (field as z.ZodType).description?.startsWith('refused') === true ? [] : [name],
      ),
      ...EFFECTIVE_KEYS,
    ];
    const ofCollect = [...namesOf(RolloutCollectionConfig), 'upload_rollouts_to_wandb'];
    assert.deepEqual(found, [ofCollect.toSorted(), namesOf(RolloutAggregationConfig).toSorted()]);
  });

  test('come out of the command line as they were given', () => {
    const values = {
      texts: [
        '',
        "it's",
        '\\',
        "\\'",
        'a\\',
        '"',
        'a,b',
        '[x]',
        '{y: 1}',
        ' é ',
        '1',
        'null',
        '\n',
      ],
      numbers: [0, -1, 9007199254740991, 0.5, 1e-7, 1e21],
      others: [null, true, false, [], {}, [[]], { 'a b': { "c'd": [{ e: null }] }, '1': 2 }],
    };
    const found = answerOf(
      `print(json.dumps(fields.overrides("call", json.loads(${JSON.stringify(JSON.stringify(values))}), ["texts", "numbers", "others"])))`,
    );
    assert.deepEqual(JSON.parse(formatJson(parseOverrides(found as string[]))), values);
  });
});
