import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMathEnvironment } from '../../../src/environments/math/kind.js';
import type { GraderPool } from '../../../src/environments/math/grader-pool.js';
import type { Pair } from '../../../src/environments/math/grader-process.js';
import { createHfVerifier } from '../../../src/environments/math/verifiers.js';
import type { Verdict } from '../../../src/environments/math/verifier.js';
import {
  createEnvironment,
  EnvironmentSettings,
  isInProcess,
} from '../../../src/environments/registry.js';
import { problemsOf } from '../../../src/model/problems.js';
import { bareContext } from '../../fakes/environment-context.js';
import { context, stepOnce } from '../step-once.js';

/** Says that everything is right, and notes what it was asked. */
function agreeing(): { grader: GraderPool; asked: Pair[] } {
  const asked: Pair[] = [];
  const grader: GraderPool = {
    compare: (pair) => {
      asked.push(pair);
      return Promise.resolve({ score: 1, extracted_answer: 'x' });
    },
    health: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  return { grader, asked };
}

const hf = (grader: GraderPool) =>
  createMathEnvironment({
    verify: createHfVerifier(grader),
    return_extracted_answer: false,
  });

test('everything that the assistant wrote is compared with the boxed ground truth', async () => {
  const { grader, asked } = agreeing();
  const log = [
    { role: 'assistant', content: 'one ' },
    { role: 'user', content: 'not this' },
    { role: 'assistant', content: 'two' },
  ];
  const turn = { message_log: log, metadata: { ground_truth: '4' } };
  assert.ok(!('answer' in (await hf(grader).step(turn, context))));
  assert.deepEqual(asked, [{ gold: '\\boxed{4}', answer: 'one two' }]);
});

for (const [info, what] of [
  [{}, 'ground_truth: expected a string, got nothing'],
  [{ ground_truth: 4 }, 'ground_truth: expected a string, got 4'],
  [{ ground_truth: null }, 'ground_truth: expected a string, got null'],
] as const) {
  test(`a ground truth that is no text is rejected and never scored: ${JSON.stringify(info)}`, async () => {
    const { grader, asked } = agreeing();
    await assert.rejects(stepOnce(hf(grader), { response: '4', info: { ...info } }), {
      type: 'EnvironmentRejected',
      message: `hf_math_verify: ${what}`,
    });
    assert.deepEqual(asked, []);
  });
}

test('an answer of 1 MB is rejected with its field and size, one of 512 kB is compared', async () => {
  const { grader, asked } = agreeing();
  const info = { ground_truth: '4' };
  await assert.rejects(stepOnce(hf(grader), { response: 'x'.repeat(1_000_000), info }), {
    type: 'EnvironmentRejected',
    message: /answer \(contents of the assistant\): expected at most 524288 bytes, got 1000000$/,
  });
  assert.equal(asked.length, 0);
  await stepOnce(hf(grader), { response: 'x'.repeat(500_000), info });
  assert.equal(asked.length, 1);
});

test('named scores become named rewards, and correctness is what the observation tells', async () => {
  const scores = [0, 1].map((correct) => ({ 'reward/correctness': correct, 'reward/format': 1 }));
  const environment = createMathEnvironment({
    verify: () => Promise.resolve({ score: scores.shift(), extracted_answer: null } as Verdict),
    return_extracted_answer: false,
  });
  for (const [correct, said] of ['Environment: incorrect', 'Environment: correct'].entries()) {
    const { reward, observation } = await stepOnce(environment, { response: '', info: {} });
    assert.deepEqual(reward, { 'reward/correctness': correct, 'reward/format': 1 });
    assert.equal(observation?.content, said);
  }
});

test('metrics of a batch are the accuracy and the share of prompts that were ever solved', async () => {
  const rollout = (prompt: string, total_reward: number) => ({
    message_log: [
      { role: 'user', content: prompt },
      { role: 'assistant', content: `answer ${total_reward} ${Math.random()}` },
      { role: 'environment', content: 'Environment: …' },
    ],
    total_reward,
    rewards: {},
    extra_env_info: {},
  });
  const rollouts = [rollout('a', 1), rollout('a', 0), rollout('b', 0), rollout('c', 0.2)];
  const environment = hf(agreeing().grader);
  assert.deepEqual(await environment.globalPostProcessAndMetrics?.(rollouts, context.signal), {
    accuracy: Math.fround(0.3),
    'pass@samples_per_prompt': Math.fround(2 / 3),
    num_problems_in_batch: 4,
  });
  assert.deepEqual(await environment.globalPostProcessAndMetrics?.([], context.signal), {});
});

test('settings choose the verifier: hf_math_verify is behind the grader, the others are in process', async () => {
  const { grader } = agreeing();
  const make = (settings: unknown) =>
    createEnvironment(EnvironmentSettings.parse(settings), bareContext({ grader }));
  const verifiers = [
    'dapo_math_verify',
    'english_multichoice',
    'multilingual_multichoice',
    'multi_reward',
  ];
  assert.equal(isInProcess(EnvironmentSettings.parse({ kind: 'math' })), false);
  for (const verifier of verifiers) {
    const settings = { kind: 'math', verifier, return_extracted_answer: true };
    const environment = await make(settings);
    assert.equal(isInProcess(EnvironmentSettings.parse(settings)), true);
    const { reward, answer } = await stepOnce(environment, {
      response: 'Answer: B',
      info: { ground_truth: 'B' },
    });
    assert.ok(answer !== undefined && (typeof reward === 'number' || 'reward/format' in reward));
  }
});

test('an unknown verifier is refused with the known ones', () => {
  const settings = { kind: 'math', verifier: 'typo' };
  const { error } = EnvironmentSettings.safeParse(settings);
  assert.ok(error !== undefined);
  const [problem] = problemsOf(error, settings);
  assert.equal(problem?.where, 'verifier');
  assert.match(problem.what, /hf_math_verify.*multi_reward.*got "typo"/);
});
