import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMANDS } from '../../../src/cli/commands.js';
import {
  E2ERolloutCollectionConfig,
  RewardProfileConfig,
  RolloutAggregationConfig,
  RolloutCollectionConfig,
} from '../../config/schemas.js';

const SCHEMAS = {
  collect: RolloutCollectionConfig,
  'collect-e2e': E2ERolloutCollectionConfig,
  aggregate: RolloutAggregationConfig,
  profile: RewardProfileConfig,
};

for (const [name, { shape }] of Object.entries(SCHEMAS)) {
  test(`the help of ${name} has a line for each field of its configuration`, () => {
    const lines = (COMMANDS[name]?.usage ?? '').split('\n');
    for (const field of Object.keys(shape)) {
      const line = lines.find((text) => new RegExp(`^\\+${field}(?:,| )`).test(text)) ?? '';
      assert.match(line, / {2}\S.* \((?:required|default .+)\)$/, field);
    }
  });
}

test('a field is shown with its flags, its default and what it means', () => {
  assert.match(
    COMMANDS['collect']?.usage ?? '',
    /^\+num_repeats, --num-repeats +rollouts of each row, or by agent: \{a: 32, _default: 1\} \(default 1\)$/m,
  );
});
