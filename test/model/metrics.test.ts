import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { computeLengths, computeMetrics } from '../../src/model/results/metrics.js';
import { Semantics } from '../../src/model/semantics.js';
import { near, summaryOf } from '../fakes/summaries.js';

/** Two groups of two, computed by hand below. */
const BATCH = [
  summaryOf({
    row: 0,
    repeat: 0,
    reward: 1,
    terminated: true,
    turns: 2,
    gen_tokens: 10,
    env_tokens: 4,
    max_gen_tokens: 6,
    wall_s: 1,
    started_at: 50,
    ended_at: 51,
  }),
  summaryOf({
    row: 0,
    repeat: 1,
    reward: 0,
    truncated: true,
    stop_reason: 'truncated',
    turns: 3,
    gen_tokens: 20,
    env_tokens: 6,
    max_gen_tokens: 9,
    wall_s: 2,
    started_at: 50,
    ended_at: 52,
    faults: { GenerationUnavailable: 2 },
    attempts: 3,
    inherited_tokens: 5,
    wasted_tokens: 7,
  }),
  summaryOf({
    row: 1,
    repeat: 0,
    reward: 1,
    terminated: true,
    truncated: true,
    turns: 1,
    gen_tokens: 4,
    env_tokens: 0,
    max_gen_tokens: 4,
    wall_s: 3,
    started_at: 51,
    ended_at: 54,
  }),
  summaryOf({
    row: 1,
    repeat: 1,
    reward: 0.5,
    max_turns_reached: true,
    stop_reason: 'max_turns',
    turns: 6,
    gen_tokens: 30,
    env_tokens: 10,
    max_gen_tokens: 8,
    wall_s: 4,
    started_at: 52,
    ended_at: 60,
    faults: { GenerationUnavailable: 1, ProtocolError: 1 },
  }),
];

describe('metrics of a small batch', () => {
  const metrics = computeMetrics(BATCH, 'standard');

  const byHand: Record<string, number> = {
    total_turns: 12,
    avg_turns_per_sample: 3,
    max_turns_per_sample: 6,
    'turns_per_sample/p95': 6,
    'turns_per_sample/p99': 6,
    natural_termination_rate: 0.5,
    truncation_rate: 0.5,
    max_turns_reached_rate: 0.25,
    mean_total_tokens_per_sample: 21,
    mean_gen_tokens_per_sample: 16,
    max_gen_tokens_per_sample: 30,
    mean_env_tokens_per_sample: 5,
    'max_gen_tokens_per_turn/max': 9,
    'max_gen_tokens_per_turn/mean': 6.75,
    'max_gen_tokens_per_turn/p95': 9,
    mean_total_reward: 0.625,
    max_total_reward: 1,
    min_total_reward: 0,
    'total_reward/mean': 0.625,
    // Deviations 0.375, -0.625, 0.375, -0.125; their squares add to 0.6875, over 3.
    'total_reward/std': Math.sqrt(0.6875 / 3),
    'total_reward/min': 0,
    'total_reward/max': 1,
    // Between 0, 0.5, 1, 1: at 0.3, 1.5 and 2.7 steps.
    'total_reward/p10': 0.15,
    'total_reward/p50': 0.75,
    'total_reward/p90': 1,
    'group/count': 2,
    'group/solve_all_rate': 0.5,
    'group/solve_none_rate': 0,
    'group/zero_variance_rate': 0,
    // Group 0 is binary: 1 of 2. Group 1 is not: the first of it.
    'pass@1': (0.5 + 1) / 2,
    'pass@2': (1 + 1) / 2,
    'avg@1': 1,
    'avg@2': (0.5 + 0.75) / 2,
    'stop_reason/terminated': 2,
    'stop_reason/truncated': 1,
    'stop_reason/max_turns': 1,
    'faults/GenerationUnavailable': 3,
    'faults/ProtocolError': 1,
    'attempts/mean': 1.5,
    'attempts/max': 3,
    inherited_tokens: 5,
    wasted_tokens: 7,
    'wall_s/mean': 2.5,
    'wall_s/p50': 2.5,
    'wall_s/p90': 3.7,
    'wall_s/p99': 3.97,
    'wall_s/max': 4,
    span_s: 10,
    turns_per_s: 1.2,
    gen_tokens_per_s: 6.4,
  };
  for (const [name, expected] of Object.entries(byHand)) {
    test(`${name} is ${expected}`, () => {
      near(metrics[name], expected);
    });
  }

  test('are one flat object of finite numbers, and no other names than these', () => {
    assert.ok(Object.values(metrics).every(Number.isFinite));
    const others = Object.keys(metrics).filter((name) => !(name in byHand));
    const times = ['queue_s', 'generate_s', 'step_s'];
    const figures = ['mean', 'p50', 'p90', 'p99', 'max'];
    assert.deepEqual(
      others,
      times.flatMap((time) => figures.map((figure) => `${time}/${figure}`)),
    );
  });
});

describe('metrics', () => {
  test('of no valid rollout are what went wrong in all that were begun', () => {
    assert.deepEqual(computeMetrics([], 'standard'), {});
    const failed = ['failed', 'timeout', 'stopped', 'cancelled'].map((stop_reason, i) =>
      summaryOf({ stop_reason, reward: 5, attempts: i, faults: { EnvironmentFailed: i } }),
    );
    assert.deepEqual(computeMetrics(failed, 'standard'), {
      'faults/EnvironmentFailed': 6,
      'attempts/mean': 2,
      'attempts/max': 3,
    });
    assert.deepEqual(
      computeMetrics([summaryOf({ stop_reason: 'stopped', attempts: 0 })], 'standard'),
      {},
    );
  });

  test('have the seconds that lost tasks took, where there were any', () => {
    const rollouts = [30, 0, 12].map((lost_s) => summaryOf({ lost_s }));
    const { lost_s, 'lost_s/max': most } = computeMetrics(rollouts, 'standard');
    assert.deepEqual([lost_s, most], [42, 30]);
    assert.ok(!('lost_s' in computeMetrics([summaryOf()], 'standard')));
  });

  test('count the faults and attempts of rollouts that failed', () => {
    const failed = summaryOf({
      stop_reason: 'failed',
      row: 9,
      attempts: 9,
      faults: { ProtocolError: 2 },
    });
    const metrics = computeMetrics([...BATCH, failed], 'standard');
    assert.deepEqual(
      [metrics['faults/ProtocolError'], metrics['attempts/mean'], metrics['attempts/max']],
      [3, 3, 9],
    );
  });

  test('of several tasks exist for each task, too, over its valid rollouts', () => {
    const of = (task_name: string, given: Parameters<typeof summaryOf>[0]) =>
      summaryOf({ task_name, ...given });
    const metrics = computeMetrics(
      [
        of('maths', { row: 0, repeat: 0, reward: 1, turns: 1 }),
        of('maths', { row: 0, repeat: 1, reward: 0, turns: 3 }),
        of('maths', { row: 0, repeat: 2, reward: 99, stop_reason: 'failed' }),
        of('code', { row: 1, repeat: 0, reward: 4, gen_tokens: 10, env_tokens: 5 }),
        of('none', { row: 2, repeat: 0, stop_reason: 'timeout' }),
      ],
      'standard',
    );
    const own = Object.entries(metrics).filter(([name]) => name.startsWith('task/'));
    assert.deepEqual(Object.fromEntries(own), {
      'task/code/total_reward/mean': 4,
      'task/code/total_reward/std': 0,
      'task/code/pass@1': 4,
      'task/code/avg_turns_per_sample': 1,
      'task/code/mean_total_tokens_per_sample': 15,
      'task/code/mean_gen_tokens_per_sample': 10,
      'task/maths/total_reward/mean': 0.5,
      'task/maths/total_reward/std': Math.sqrt(0.5),
      'task/maths/pass@1': 0.5,
      'task/maths/pass@2': 1,
      'task/maths/avg_turns_per_sample': 2,
      'task/maths/mean_total_tokens_per_sample': 2,
      'task/maths/mean_gen_tokens_per_sample': 1,
    });
  });

  test('of very many tasks stay small', () => {
    const rewards = Object.fromEntries(
      Array.from({ length: 99 }, (_, i) => [`${i}${'x'.repeat(99)}`, 1]),
    );
    const all = Array.from({ length: 500 }, (_, row) =>
      summaryOf({ row, rewards, task_name: `task-${row}` }),
    );
    const text = JSON.stringify(computeMetrics(all, 'standard'));
    assert.ok(text.length < 8000, `${text.length} bytes`);
    assert.match(text, /"task\/task-0\/pass@1"/);
  });

  test('leave out what did not end validly: a fault is never a reward', () => {
    const failed = summaryOf({
      stop_reason: 'failed',
      row: 9,
      reward: -100,
      turns: 50,
      attempts: 0,
    });
    for (const semantics of Semantics.options)
      assert.deepEqual(
        computeMetrics([...BATCH, failed], semantics),
        computeMetrics(BATCH, semantics),
      );
  });

  test('natural_termination_rate counts truncation under nemo-rl-sync only', () => {
    const rate = (semantics: Semantics) =>
      computeMetrics(BATCH, semantics)['natural_termination_rate'];
    assert.equal(rate('standard'), 0.5);
    assert.equal(rate('nemo-rl-async'), 0.5);
    assert.equal(rate('nemo-rl'), 0.5);
    assert.equal(rate('nemo-rl-sync'), 0.75);
  });

  test('of one rollout have no spread, and no rate where no time passed', () => {
    const metrics = computeMetrics([summaryOf({ reward: 3, turns: 2 })], 'standard');
    assert.equal(metrics['total_reward/std'], 0);
    assert.equal(metrics['total_reward/p10'], 3);
    assert.equal(metrics['pass@1'], 3);
    assert.equal(metrics['turns_per_s'], 0);
    assert.ok(!('pass@2' in metrics));
  });

  test('of a reward component that some rollouts lack count it there as 0', () => {
    const some = [summaryOf({ rewards: { format: 1 } }), summaryOf({ repeat: 1, rewards: {} })];
    assert.equal(computeMetrics(some, 'standard')['rewards/format/mean'], 0.5);
  });

  test('of components whose names begin alike, are like other metrics or like what every object has, are all there', () => {
    const long = 'n'.repeat(100);
    const names = [`${long}a`, `${long}b`, 'mean', 'total_reward/mean', 'constructor'];
    const rewards = Object.fromEntries(names.map((name, i) => [name, i + 1]));
    const metrics = computeMetrics([summaryOf({ rewards }), summaryOf()], 'standard');
    const cut = `rewards/${'n'.repeat(80)}…`;
    const expected = {
      'rewards/constructor/mean': 2.5,
      'rewards/mean/mean': 1.5,
      [`${cut}/mean`]: 0.5,
      [`${cut}~2/mean`]: 1,
      'rewards/total_reward/mean/mean': 2,
    };
    const got = Object.entries(metrics).filter(([name]) => name.startsWith('rewards/'));
    assert.deepEqual(Object.fromEntries(got), expected);
    assert.equal(metrics['total_reward/mean'], 0);
  });

  test('of an environment with many long component names stay small', () => {
    const rewards = Object.fromEntries(
      Array.from({ length: 500 }, (_, i) => [`${i}-${'x'.repeat(300)}`, 1]),
    );
    const metrics = JSON.stringify(computeMetrics([summaryOf({ rewards })], 'standard'));
    assert.ok(metrics.length < 10_000, `${metrics.length} bytes`);
    assert.match(metrics, /rewards\/0-x+…\/mean/);
  });

  test('of a very large batch are computed, too', () => {
    const many = Array.from({ length: 200_000 }, (_, row) => summaryOf({ row, reward: row % 2 }));
    assert.equal(computeMetrics(many, 'standard')['mean_total_reward'], 0.5);
  });
});

describe('upstream’s percentile', () => {
  const p95 = (turns: number[]) =>
    computeMetrics(
      turns.map((count, row) => summaryOf({ row, turns: count })),
      'standard',
    )['turns_per_sample/p95'];

  test('is not interpolated: of 1 to 20 the 95th is 20', () => {
    assert.equal(p95(Array.from({ length: 20 }, (_, i) => i + 1)), 20);
  });

  test('of one value is that value, and order does not matter', () => {
    assert.equal(p95([5]), 5);
    assert.equal(p95([9, 1, 5]), 9);
    assert.equal(p95(Array.from({ length: 40 }, (_, i) => 40 - i)), 39);
  });
});

describe('lengths of a batch that stops rollouts', () => {
  const completed = [
    { gen_tokens: 10, env_tokens: 2 },
    { gen_tokens: 20, env_tokens: 4 },
  ].map(summaryOf);
  const stopped = summaryOf({
    stop_reason: 'stopped',
    gen_tokens: 50,
    env_tokens: 0,
    started_at: 3,
  });
  const neverStarted = summaryOf({
    stop_reason: 'stopped',
    gen_tokens: 0,
    env_tokens: 0,
    started_at: 0,
  });

  test('are means of tokens apart, and a rollout that never started has none', () => {
    assert.deepEqual(computeLengths([...completed, stopped, neverStarted]), {
      'completed/mean_tokens': 18,
      'stopped/mean_tokens': 50,
    });
  });

  test('of replaced members are those of failed ones that a replacement names', () => {
    const failed = [
      summaryOf({ row: 1, repeat: 0, stop_reason: 'failed', gen_tokens: 7, started_at: 3 }),
      summaryOf({ row: 1, repeat: 1, stop_reason: 'timeout', gen_tokens: 9, started_at: 3 }),
      summaryOf({ row: 1, repeat: 2, replaces: 0, stop_reason: 'failed', gen_tokens: 0 }),
      summaryOf({ row: 2, repeat: 0, stop_reason: 'failed', gen_tokens: 999, started_at: 3 }),
    ];
    const others = [
      summaryOf({ row: 1, repeat: 3, replaces: 1 }),
      summaryOf({ row: 1, repeat: 4, replaces: 2 }),
      // One of another row; and one whose member a continued batch has completed.
      summaryOf({ row: 3, repeat: 2, replaces: 0 }),
      summaryOf({ row: 3, repeat: 0 }),
    ];
    assert.deepEqual(computeLengths([...failed, ...others]), {
      'completed/mean_tokens': 2,
      'replaced/count': 3,
      'replaced/mean_tokens': 9,
    });
  });

  test('exist only for lengths that exist', () => {
    assert.deepEqual(computeLengths([neverStarted]), {});
    assert.deepEqual(Object.keys(computeLengths(completed)), ['completed/mean_tokens']);
  });
});
