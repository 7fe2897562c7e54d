import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { seamsOf } from '../../../lab/chaos/unbiased/arms.js';
import type { ArmName, ArmResult } from '../../../lab/chaos/unbiased/report.js';
import { reportOf } from '../../../lab/chaos/unbiased/report.js';

describe('an arm', () => {
  test('has a seam wherever another request continued a turn', () => {
    const part = { start: 0, end: 1, replica: 'r' };
    const segment = (turn: number, request_id: string) => ({ ...part, turn, request_id });
    assert.equal(seamsOf({ segments: [segment(0, 'a'), segment(1, 'b')] }), 0);
    assert.equal(
      seamsOf({ segments: [segment(0, 'a'), segment(0, 'b'), segment(1, 'c'), segment(1, 'd')] }),
      2,
    );
    assert.equal(seamsOf({ segments: [] }), 0);
  });
});

const LENGTHS = Array.from({ length: 500 }, (_, i) => 10 + i);
const REWARDS = LENGTHS.map((_, i) => i % 2);

function arm(name: ArmName, more: Partial<ArmResult> = {}): ArmResult {
  return {
    name,
    requested: 500,
    lengths: LENGTHS,
    rewards: REWARDS,
    kills: name === 'undisturbed' ? [] : [6000, 12_000],
    seams: { undisturbed: [0], resumed: [0, 2, 1], 'started over': null }[name],
    cut_streams: name === 'undisturbed' ? 0 : 9,
    pace: 0.98,
    duration_s: 60,
    ...more,
  };
}

const SHORTER = { lengths: LENGTHS.map((length) => Math.ceil(length * 0.7)) };
const report = (resumed: Partial<ArmResult>, over: Partial<ArmResult> = SHORTER) =>
  reportOf([arm('undisturbed'), arm('resumed', resumed), arm('started over', over)], {
    seed: 5,
    duration_s: 200,
  });

describe('the experiment', () => {
  test('holds when resuming changes nothing and starting over does', () => {
    const { ok, broken, arms, comparisons } = report({});
    assert.deepEqual(broken, []);
    assert.equal(ok, true);
    const [, resumed] = arms;
    assert.deepEqual([resumed?.seams, resumed?.rollouts_with_seams, resumed?.kills], [3, 2, 2]);
    assert.deepEqual(resumed?.length, { mean: 259.5, median: 260, min: 10, max: 509 });
    assert.deepEqual(
      comparisons.map(({ arm: name, of }) => `${name} ${of}`),
      ['resumed length', 'resumed reward', 'started over length', 'started over reward'],
    );
  });

  test('is broken by resumed lengths or rewards that are distributed otherwise', () => {
    assert.match(
      report(SHORTER).broken.join(),
      /^resumed: length is distributed otherwise .* p \d/,
    );
    const rewards = REWARDS.map((reward, i) => (i % 7 === 0 ? 1 : reward * 0));
    assert.match(report({ rewards }).broken.join(), /^resumed: reward is distributed otherwise/);
  });

  test('is broken without power, without kills, and without enough rollouts', () => {
    assert.match(report({}, {}).broken.join(), /started over: length, p 1\.0, .* no power/);
    assert.deepEqual(report({ kills: [] }).broken, ['resumed: no kill has struck']);
    assert.deepEqual(report({ requested: 501 }).broken, ['resumed: 1 of 501 rollouts are lost']);
    const few = { lengths: LENGTHS.slice(0, 399), rewards: REWARDS.slice(0, 399), requested: 399 };
    assert.match(report(few).broken.join(), /resumed: 399 rollouts are fewer than 400/);
  });

  test('is broken where the undisturbed arm was disturbed, or its lengths hardly vary', () => {
    const given = { seed: 5, duration_s: 200 };
    const broken = (more: Partial<ArmResult>): string[] =>
      reportOf([arm('undisturbed', more)], given).broken;
    const resumed = (count: number): number[] => LENGTHS.map((_, i) => (i < count ? 2 : 0));
    assert.deepEqual(broken({ seams: resumed(25) }), []);
    assert.deepEqual(broken({ seams: resumed(26) }), ['undisturbed: 26 rollouts were resumed']);
    assert.deepEqual(broken({ lengths: LENGTHS.map((length) => length + 5) }), [
      'undisturbed: lengths of 15 to 514 vary less than 1:50',
    ]);
  });
});
