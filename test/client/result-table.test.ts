import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { BatchResult } from '../../src/activities/contract.js';
import { renderResult } from '../../src/client/result-table.js';

const FILES = {
  rollouts: '/home/you/.rollouts/trajectories/sliding-puzzle-20261121T020304Z/rollouts.jsonl',
  failures: '/home/you/.rollouts/trajectories/sliding-puzzle-20261121T020304Z/failures.jsonl',
  groups: '/home/you/.rollouts/trajectories/sliding-puzzle-20261121T020304Z/groups.jsonl',
  metrics: '/home/you/.rollouts/trajectories/sliding-puzzle-20261121T020304Z/metrics.json',
};
const RESULT: BatchResult = {
  schema_version: 1,
  batch_id: 'sliding-puzzle-20261121T020304Z',
  counts: { requested: 64, completed: 61, failed: 2, timed_out: 1, stopped: 0, cancelled: 0 },
  metrics: {
    total_turns: 391,
    avg_turns_per_sample: 6.109375,
    natural_termination_rate: 0.953125,
    mean_gen_tokens_per_sample: 301.328,
    'max_gen_tokens_per_turn/max': 71,
    'total_reward/mean': 0.4375,
    'group/count': 16,
    'pass@4': 0.75,
    'stop_reason/max_turns': 3,
    'stop_reason/terminated': 58,
    'generate_s/p50': 2.51,
    turns_per_s: 14.25,
    gen_tokens_per_s: 830.2,
    'attempts/mean': 1,
    sliding_puzzle_success_rate: 0.4375,
    something_new: 3,
  },
  files: FILES,
  metadata: {},
};

describe('the result', () => {
  test('is the metrics in groups with their values aligned, the counts, and the files', () => {
    assert.deepEqual(renderResult(RESULT, { columns: 79, colour: false }), [
      'Reward',
      '  total_reward/mean  0.4375    sliding_puzzle_success_rate  0.4375',
      '',
      'Groups',
      '  group/count  16    pass@4  0.7500',
      '',
      'Turns',
      '  total_turns             391    turns_per_s  14.25',
      '  avg_turns_per_sample  6.109',
      '',
      'Tokens',
      '  mean_gen_tokens_per_sample   301.3    gen_tokens_per_s  830.2',
      '  max_gen_tokens_per_turn/max     71',
      '',
      'How rollouts ended',
      '  natural_termination_rate  0.9531    stop_reason/terminated  58',
      '  stop_reason/max_turns          3',
      '',
      'Seconds per rollout',
      '  generate_s/p50  2.510',
      '',
      'Faults of all tries',
      '  attempts/mean  1',
      '',
      'Other',
      '  something_new  3',
      '',
      '61 of 64 rollouts completed, 2 failed, 1 timed out',
      `  rollouts  ${FILES.rollouts}`,
      `  failures  ${FILES.failures}`,
      `  groups    ${FILES.groups}`,
      `  metrics   ${FILES.metrics}`,
    ]);
  });

  test('keeps paths whole on a narrow terminal, and nothing else wider than it', () => {
    const lines = renderResult(RESULT, { columns: 40, colour: false });
    const wide = lines.filter((line) => line.length > 40);
    assert.deepEqual(
      wide.map((line) => line.trim().split(/ +/)[1]),
      Object.values(FILES),
    );
  });

  test('gives paths below the current folder from there', () => {
    const rollouts = path.join(process.cwd(), '.rollouts', 'b', 'rollouts.jsonl');
    const text = renderResult(
      { ...RESULT, files: { ...FILES, rollouts } },
      { columns: 79, colour: false },
    ).join('\n');
    assert.match(text, /^ {2}rollouts {2}\.rollouts\/b\/rollouts\.jsonl$/m);
    assert.match(text, new RegExp(`^ {2}metrics {3}${FILES.metrics}$`, 'm'));
  });

  test('says below the counts what is true of all rollouts', () => {
    const notes = ['all 61 valid rollouts have the reward 0'];
    const lines = renderResult({ ...RESULT, notes }, { columns: 79, colour: false });
    const counts = lines.findIndex((line) => line.startsWith('61 of 64 rollouts completed'));
    assert.equal(lines[counts + 1], `  ${notes[0]}`);
    assert.match(
      renderResult({ ...RESULT, notes }, { columns: 20, colour: false }).join('\n'),
      /reward 0$/m,
      'it is not cut',
    );
  });

  test('has no table when no rollout is valid', () => {
    const counts = {
      requested: 4,
      completed: 0,
      failed: 4,
      timed_out: 0,
      stopped: 0,
      cancelled: 0,
    };
    const lines = renderResult({ ...RESULT, counts, metrics: {} }, { columns: 79, colour: false });
    assert.equal(lines[0], '0 of 4 rollouts completed, 4 failed');
    assert.equal(lines.length, 1 + 4);
  });

  test('says below the counts why most failed, whole, with how many', () => {
    const message = `no such\ntable ${'x'.repeat(100)}`;
    const failures = {
      TimedOut: { rollouts: 1, message: 'rollout_timeout passed' },
      EnvironmentFailed: { rollouts: 5, message },
      PromptTooLong: { rollouts: 2, message: 'too long' },
    };
    const style = { columns: 79, colour: false };
    const [before, after] = [
      renderResult(RESULT, style),
      renderResult({ ...RESULT, failures }, style),
    ];
    assert.deepEqual(
      after.filter((line) => !before.includes(line)),
      [
        `  EnvironmentFailed (5 rollouts): no such table ${'x'.repeat(100)}`,
        '  PromptTooLong (2 rollouts): too long',
      ],
    );
    assert.deepEqual(renderResult({ ...RESULT, failures: undefined }, style), before);
  });
});
