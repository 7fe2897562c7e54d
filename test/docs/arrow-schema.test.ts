/** The columns of rollouts.arrow as data. `UPDATE_SCHEMAS=1` writes the file anew. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { format, resolveConfig } from 'prettier';
import { ARROW_COLUMNS } from '../../src/model/results/arrow/columns.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

const file = path.join(PROJECT_ROOT, 'docs', 'schemas', 'rollouts-arrow.json');
const style = await resolveConfig(path.join(PROJECT_ROOT, 'package.json'));

describe('docs/schemas/rollouts-arrow.json', () => {
  test('has the columns that are written', async () => {
    const text = JSON.stringify({ columns: ARROW_COLUMNS }, null, 2);
    if (process.env['UPDATE_SCHEMAS'] === '1')
      await writeFile(file, await format(text, { ...style, filepath: file }));
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), JSON.parse(text));
  });

  // A reader of an earlier release asks for these by name.
  test('has the columns of the first release that wrote them, unchanged, and further ones nullable at the end', () => {
    const first = ARROW_COLUMNS.slice(0, FIRST.length);
    assert.deepEqual(
      first.map(({ name, type, nullable }) => `${name} ${type}${nullable ? '?' : ''}`),
      FIRST,
    );
    assert.ok(ARROW_COLUMNS.slice(FIRST.length).every(({ nullable }) => nullable));
  });
});

const FIRST = [
  'rollout_id utf8',
  'row int32',
  'repeat int32',
  'sequence int32',
  'parent int32?',
  'fork int32',
  'group int32',
  'step int32?',
  'total_reward float64',
  'loss_multiplier float32',
  'stop_reason utf8',
  'terminated bool',
  'truncated bool',
  'prompt_tokens int32',
  'sampled_tokens int32',
  'lag_max int32?',
  'input_ids list<int32>',
  'loss_mask list<uint8>',
  'logprobs list<float32>',
  'versions list<int32>',
  'rest large_utf8',
];
