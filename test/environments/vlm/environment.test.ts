import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createEnvironment, EnvironmentSettings } from '../../../src/environments/registry.js';
import { boxedText, taggedText } from '../../../src/environments/vlm/reward-functions.js';
import { problemsOf } from '../../../src/model/problems.js';
import { bareContext } from '../../fakes/environment-context.js';
import { stepOnce } from '../step-once.js';
import { processorTime_ms } from '../../harness/processor-time.js';

async function rewardOf(
  name: string,
  { response, ...info }: { response: string; ground_truth?: unknown },
): Promise<unknown> {
  const settings = { kind: 'vlm', reward_functions: [{ name, weight: 2 }] };
  const environment = await createEnvironment(EnvironmentSettings.parse(settings), bareContext());
  const { reward } = await stepOnce(environment, { response, info });
  return reward;
}

function problemsIn(reward_functions: unknown): string[] {
  const settings = { kind: 'vlm', reward_functions };
  const { error } = EnvironmentSettings.safeParse(settings);
  assert.ok(error !== undefined, 'the settings were accepted');
  return problemsOf(error, settings).map(({ where, what }) => `${where}: ${what}`);
}

describe('the vlm environment', () => {
  for (const box of ['[-inf,-inf,inf,inf]', '[0,0,inf,inf]']) {
    test(`makes a fault of a reward that is no number: ${box}`, async () => {
      const step = rewardOf('bbox_giou', {
        response: `<answer>${box}</answer>`,
        ground_truth: '[0,0,1,1]',
      });
      await assert.rejects(step, {
        type: 'EnvironmentRejected',
        message: 'vlm: reward functions: bbox_giou: expected a finite reward, got NaN',
      });
    });
  }

  for (const info of [{}, { ground_truth: [0, 0, 1, 1] }, { ground_truth: null }]) {
    test(`rejects a ground truth that is no text: ${JSON.stringify(info)}`, async () => {
      const step = rewardOf('format', { response: '<answer>4</answer>', ...info });
      await assert.rejects(step, {
        type: 'EnvironmentRejected',
        message: /^vlm: ground_truth: expected a string, got /,
      });
    });
  }

  test('gives a malformed answer nothing, and needs no grader to see it', async () => {
    for (const name of ['math_expr', 'geo3k', 'bbox_giou', 'exact_alnum', 'format']) {
      assert.equal(await rewardOf(name, { response: '</answer>4<answer>', ground_truth: '4' }), 0);
    }
  });

  test('reads an answer of 1 MB without tags in no time', async () => {
    const startedAt = processorTime_ms();
    const response = '<answer><think>\\boxed{'.repeat(50_000);
    for (const name of ['format', 'exact_alnum', 'bbox_giou', 'geo3k']) {
      assert.equal(await rewardOf(name, { response, ground_truth: '4' }), 0);
    }
    assert.ok(processorTime_ms() - startedAt < 1000);
  });
});

describe('settings of the vlm environment', () => {
  test('name each wrong field of a reward function', () => {
    const functions = [
      { name: 'format', weight: '1' },
      { name: 'format', weight: 1, kwargs: { tag: 'a' } },
      { name: 'exact_alnum', weight: 1, kwargs: { answer_tag: 'a.*' } },
      { name: 'geo3k', weight: 1, kwargs: { format_score: 'high' } },
      { name: 'geo3k', weight: 1, more: 1 },
    ];
    assert.deepEqual(problemsIn(functions), [
      'reward_functions.0.weight: expected number, got "1"',
      'reward_functions.1.kwargs.tag: unknown field',
      'reward_functions.2.kwargs.answer_tag: expected a tag name such as answer, got "a.*"',
      'reward_functions.3.kwargs.format_score: expected number, got "high"',
      'reward_functions.4.more: unknown field',
    ]);
  });

  test('need weights that can be renormalised', () => {
    const functions = [1, -1].map((weight) => ({ name: 'format', weight }));
    assert.match(problemsIn(functions).join(), /expected a sum other than 0, got 0/);
  });
});

test('a tag reaches from its first opening to the last closing after it', () => {
  assert.equal(taggedText('<a>1</a> <a>2</a>', 'a'), '1</a> <a>2');
  assert.equal(taggedText('</a><a>1', 'a'), null);
  assert.equal(taggedText('<a></a>', 'a'), '');
});

test('the last box ends at its own brace and is none when that is missing', () => {
  assert.equal(boxedText('\\boxed{1} \\boxed{ \\frac{1}{2}\n} }'), '\\frac{1}{2}');
  assert.equal(boxedText('\\boxed{1} \\boxed{2'), null);
});
