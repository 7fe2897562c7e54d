import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestFacts, seamsOf } from '../../chaos/unbiased/arms.js';
import { killOf, killUntilEnd } from '../../chaos/unbiased/kills.js';
import { ksTest } from '../harness/kolmogorov-smirnov.js';
import type { ArmName, ArmResult } from '../../chaos/unbiased/report.js';
import { reportOf, tableOf } from '../../chaos/unbiased/report.js';
import {
  ROLLOUTS,
  SIMULATOR,
  TOKENS_PER_SECOND,
  requestOf,
} from '../../chaos/unbiased/workload.js';
import { BatchRequest } from '../../src/model/batch-request.js';
import { createPolicy } from '../../src/dev/simulator/policy/policy.js';
import { createRandom } from '../../src/dev/simulator/random.js';
import { encode } from '../../src/dev/simulator/policy/tokenizer.js';

describe('the workload', () => {
  test('is a batch request, and each arm draws anew', () => {
    const { samples, num_repeats, generation } = BatchRequest.parse(requestOf(1, 7));
    assert.equal((samples as unknown[]).length * num_repeats, ROLLOUTS);
    assert.notEqual(requestOf(2, 7).generation?.seed, generation.seed);
    assert.notEqual(requestOf(1, 8).generation?.seed, generation.seed);
    assert.equal(requestOf(1, 7).generation?.seed, generation.seed);
  });

  test('is of turns that may be cut anywhere: the policy continues as if it had not been', () => {
    const whole = Array.from({ length: 800 }, (_, i) => turnLength(i, Infinity));
    const cut = Array.from({ length: 800 }, (_, i) => turnLength(i + 1000, 97));
    const { p } = ksTest(whole, cut);
    assert.ok(p > 0.01, String(p));
    assert.ok(Math.max(...whole) > 20 * Math.min(...whole));
  });
});

/** One turn's answer that is cut after each such number of further tokens, and continues with new draws. */
function turnLength(seed: number, every: number): number {
  const policy = createPolicy();
  const [sample] = requestOf(1, 0).samples;
  const prompt = encode(sample?.message_log[0]?.content ?? '');
  const said: number[] = [];
  for (let part = 0; ; part++) {
    const room = Math.min(every, 2048);
    const { token_ids } = policy({
      prompt: [...prompt, ...said],
      max_tokens: room,
      min_tokens: 0,
      ignore_eos: false,
      sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
      skill: 0,
      thinking: SIMULATOR.thinking_tokens as [number, number],
      random: createRandom(seed * 1000 + part),
    });
    said.push(...token_ids);
    if (token_ids.length < room) return said.length;
  }
}

describe('kills', () => {
  test('are the same for equal seeds: which of the two comes first, and how long before the other', () => {
    const kills = Array.from({ length: 50 }, (_, i) => killOf(3, i));
    assert.deepEqual(
      kills,
      kills.map((_, i) => killOf(3, i)),
    );
    assert.deepEqual(new Set(kills.map(({ first }) => first)), new Set(['player', 'engine']));
    assert.ok(kills.every(({ gap_ms }) => gap_ms >= 0 && gap_ms < 500));
    assert.notDeepEqual(
      kills,
      kills.map((_, i) => killOf(4, i)),
    );
  });

  test('strike both again and again until what is played has ended, and leave both started', async () => {
    let end: (isOver: boolean) => void = () => undefined;
    const played = new Promise<boolean>((resolve) => (end = resolve));
    const { target, said } = scriptedTarget(() => {
      if (times('player killed') === 3) end(true);
    });
    const times = (what: string): number => said.filter((text) => text === what).length;
    const { result, kills } = await killUntilEnd({ seed: 3, every_ms: 600, target }, played);
    assert.equal(result, true);
    assert.equal(kills.length, 3);
    for (const what of ['player killed', 'engine killed', 'engine started'])
      assert.equal(times(what), 3, said.join());
  });

  test('end with what is played when that fails', async () => {
    const { target } = scriptedTarget();
    const played = sleep(20).then(() => {
      throw new Error('late');
    });
    await assert.rejects(killUntilEnd({ seed: 3, every_ms: 60_000, target }, played), /late/);
  });
});

function scriptedTarget(hear = (): void => undefined) {
  const said: string[] = [];
  const say = (what: string) => () => {
    said.push(what);
    hear();
    return Promise.resolve();
  };
  const refuse = (): never => assert.fail('nobody asked for this');
  const frozen = { pause: refuse, resume: refuse };
  const player = { kill: say('player killed'), pid: refuse, ...frozen };
  const engine = {
    kill: say('engine killed'),
    start: say('engine started'),
    inject: refuse,
    ...frozen,
  };
  return { target: { player, engine }, said };
}

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

  test('reports what was cut, and the pace of the rest', () => {
    const stream = {
      whole: true,
      tokens_sent: TOKENS_PER_SECOND,
      arrived_at: 1000,
      ended_at: 2000,
    };
    const facts = requestFacts([
      stream,
      { ...stream, ended_at: 4000 },
      { ...stream, whole: false, ended_at: 9000 },
    ]);
    assert.deepEqual(facts, { cut_streams: 1, pace: 0.5 });
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

  test('has a line for each arm, and one for each thing that is broken', () => {
    const [title, , ...lines] = tableOf(report({})).split('\n');
    assert.equal(
      title,
      'seed 5, 200 s: no difference found between resumed and undisturbed rollouts (p 1.000 for lengths, 1.000 for rewards); those started over differ',
    );
    assert.equal(lines.length, 5);
    assert.match(
      lines[3] ?? '',
      /^\| resumed \| 500 \| 260 \| 260 \| 10 \| 509 \| 1\.000 \| 0\.500 /,
    );
    assert.match(tableOf(report({ kills: [] })), /BROKEN[^]*\n\nresumed: no kill has struck$/);
  });
});
