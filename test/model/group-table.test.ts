import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { groupTable } from '../../src/model/results/group-table.js';
import { computeMetrics } from '../../src/model/results/metrics.js';
import type { Summary } from '../../src/model/results/summary.js';
import { near, summaryOf } from '../fakes/summaries.js';

const failed = (given: Partial<Summary>): Summary =>
  summaryOf({ reward: -99, stop_reason: 'failed', failure: 'EnvironmentFailed', ...given });

describe('the table of groups', () => {
  test('says of each group what its valid members are like, and why the others are none', () => {
    const lines = groupTable([
      summaryOf({
        row: 3,
        repeat: 0,
        reward: 1,
        turns: 2,
        gen_tokens: 10,
        env_tokens: 4,
        task_name: 'maths',
      }),
      failed({ row: 3, repeat: 1, task_name: 'maths' }),
      summaryOf({
        row: 3,
        repeat: 2,
        reward: 0,
        turns: 4,
        gen_tokens: 20,
        env_tokens: 8,
        task_name: 'maths',
      }),
      failed({
        row: 3,
        repeat: 3,
        stop_reason: 'timeout',
        failure: 'TimedOut',
        task_name: 'maths',
      }),
      failed({ row: 3, repeat: 4, task_name: 'maths' }),
    ]);
    assert.deepEqual(lines, [
      {
        row: 3,
        task_name: 'maths',
        rollouts: 5,
        valid: 2,
        failures: { EnvironmentFailed: 2, TimedOut: 1 },
        'total_reward/mean': 0.5,
        'total_reward/std': Math.SQRT1_2,
        'pass@1': 0.5,
        'pass@2': 1,
        avg_turns_per_sample: 3,
        mean_total_tokens_per_sample: 21,
        mean_gen_tokens_per_sample: 15,
        'total_reward/min': 0,
        'total_reward/max': 1,
      },
    ]);
  });

  test('has the rollouts of one task of an agent together, whatever their rows and wherever they failed', () => {
    const of = (
      task_index: number,
      { name = 'a', ...given }: Partial<Summary> & { name?: string } = {},
    ): Summary =>
      summaryOf({
        agent: { name, task_index, masked: false, prompt_tokens: 2, fields: {} },
        ...given,
      });
    const all = [
      of(3, { row: 0, reward: 1 }),
      of(4, { row: 1, reward: 0 }),
      {
        ...failed({ row: 2 }),
        ...of(3, { row: 2, stop_reason: 'failed', failure: 'AgentFailed' }),
      },
      of(3, { row: 3, reward: 0 }),
      of(3, { row: 4, reward: 1, name: 'b' }),
      of(3, { row: 5, reward: 1, task_name: 'other' }),
      summaryOf({ row: 6, reward: 1 }),
    ];
    const lines = groupTable(all);
    assert.deepEqual(
      lines.map(({ row, agent, task_index, rollouts, valid }) => [
        row,
        agent,
        task_index,
        rollouts,
        valid,
      ]),
      [
        [0, 'a', 3, 3, 2],
        [1, 'a', 4, 1, 1],
        [4, 'b', 3, 1, 1],
        [5, 'a', 3, 1, 1],
        [6, undefined, undefined, 1, 1],
      ],
    );
    const metrics = computeMetrics(all, 'standard');
    assert.deepEqual([metrics['group/count'], metrics['pass@2']], [5, 1]);
    near(metrics['pass@1'], (0.5 + 0 + 1 + 1 + 1) / 5);
  });

  test('has a group without a valid member, and no metric of it', () => {
    const [line] = groupTable([failed({ row: 0 })]);
    assert.deepEqual(line, {
      row: 0,
      task_name: 'task',
      rollouts: 1,
      valid: 0,
      failures: { EnvironmentFailed: 1 },
    });
  });

  test('keeps the order of the groups, which in a step is not that of their numbers', () => {
    const rows = [7, 7, 2, 2, 5].map((row, repeat) => summaryOf({ row, repeat }));
    assert.deepEqual(
      groupTable(rows).map(({ row }) => row),
      [7, 2, 5],
    );
  });

  test('adds up to the metrics of the batch, whatever the groups', () => {
    const rewards = fc.array(fc.option(fc.constantFrom(0, 1, 0.5)), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(fc.array(rewards, { minLength: 1, maxLength: 6 }), (groups) => {
        const all = groups.flatMap((group, row) =>
          group.map((reward, repeat) =>
            reward === null ? failed({ row, repeat }) : summaryOf({ row, repeat, reward }),
          ),
        );
        const lines = groupTable(all);
        assert.equal(lines.length, groups.length);
        const metrics = Object.entries(computeMetrics(all, 'standard'));
        for (const [name, value] of metrics.filter(([name]) => name.startsWith('pass@'))) {
          const own = lines.flatMap((line) => (name in line ? [Number(line[name])] : []));
          near(own.reduce((sum, one) => sum + one, 0) / own.length, value);
        }
      }),
    );
  });
});
