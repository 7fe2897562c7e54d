/** What is said of a batch whose rollouts all share what is rarely meant. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BatchRequest } from '../../src/model/batch-request.js';
import { notesOf } from '../../src/model/results/notes.js';
import type { Summary } from '../../src/model/results/summary.js';
import { summaryOf } from '../fakes/summaries.js';

const REQUEST = BatchRequest.parse({
  samples: { path: 'samples.jsonl' },
  generation: { max_new_tokens: 16 },
});
const FAILED = summaryOf({ stop_reason: 'failed', reward: 7, sampled: 9 });
const FINE = { reward: 1, max_gen_tokens: 5 };

/** Of rollouts that differ in nothing but this, and one that failed. */
const notes = (...rollouts: Partial<Summary>[]): string[] =>
  notesOf([...rollouts.map((given) => summaryOf({ ...FINE, ...given })), FAILED], REQUEST);

describe('what is true of all valid rollouts of a batch', () => {
  test('is said where all are truncated, with the limit that is known to have cut them', () => {
    const cut = { truncated: true, max_gen_tokens: 16 };
    assert.deepEqual(notes(cut, cut), [
      'all 2 valid rollouts are truncated: max_new_tokens 16 is too small',
    ]);
    const otherwise = { truncated: true, max_gen_tokens: 11 };
    assert.deepEqual(notes(cut, otherwise), [
      'all 2 valid rollouts are truncated: by max_seq_len 4096, a limit that was changed, or their environment',
    ]);
    assert.deepEqual(notes(cut, {}), []);
  });

  test('is said where all have one reward that solves nothing', () => {
    assert.deepEqual(notes({ reward: 0 }, { reward: 0 }, { reward: 0 }), [
      'all 3 valid rollouts have the reward 0',
    ]);
    assert.deepEqual(notes({ reward: -1 }, { reward: -1 }), [
      'all 2 valid rollouts have the reward -1',
    ]);
    assert.deepEqual(notes({ reward: 0 }, { reward: -1 }), []);
    assert.deepEqual(notes({ reward: 1 }, { reward: 1 }), []);
  });

  test('is said where the policy samples the same tokens in all', () => {
    assert.deepEqual(notes({ sampled: 5 }, { sampled: 5 }), [
      'in all 2 valid rollouts the policy says the same text',
    ]);
    assert.deepEqual(notes({ sampled: 5 }, { sampled: 6 }), []);
    // An earlier release has written the part, or nothing was sampled.
    assert.deepEqual(notes({}, {}), []);
    assert.deepEqual(notes({ sampled: 5 }, {}), []);
  });

  test('is nothing where there is one rollout, or none', () => {
    assert.deepEqual(notes({ reward: 0, truncated: true, sampled: 5 }), []);
    assert.deepEqual(notes(), []);
  });
});
