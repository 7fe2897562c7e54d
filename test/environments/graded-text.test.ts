import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EnvironmentMessage } from '../../src/environments/environment.js';
import type { GraderPool } from '../../src/environments/math/grader-pool.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { bareContext } from '../fakes/environment-context.js';
import { said } from '../fakes/environment-steps.js';
import { context } from './step-once.js';

/** Says that an answer with this text in a box is right. */
const boxReader: GraderPool = {
  compare: ({ gold, answer }) =>
    Promise.resolve({ score: Number(answer.includes(gold)), extracted_answer: null }),
  health: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

const user = (content: string): EnvironmentMessage => ({ role: 'user', content });

interface Asked {
  settings: object;
  ground_truth: string;
  log: EnvironmentMessage[];
  /** Absent: upstream's rules. */
  prompt_length?: number;
}

async function rewardOf({ settings, ground_truth, log, prompt_length }: Asked): Promise<unknown> {
  const environment = await createEnvironment(
    EnvironmentSettings.parse(settings),
    bareContext({ grader: boxReader }),
  );
  const { reward } = await environment.step(
    { message_log: log, metadata: { ground_truth } },
    { ...context, ...(prompt_length !== undefined && { prompt_length }) },
  );
  return typeof reward === 'number' ? reward : reward['reward/correctness'];
}

const verifier = (name: string) => ({ kind: 'math', verifier: name });
const vlm = (name: string) => ({ kind: 'vlm', reward_functions: [{ name, weight: 1 }] });

/** Each grader with an answer as it is given to it. */
const GRADERS: [name: string, settings: object, answer: string, ground_truth: string][] = [
  ['hf_math_verify', verifier('hf_math_verify'), '\\boxed{42}', '42'],
  ['dapo_math_verify', verifier('dapo_math_verify'), 'Answer: 42', '42'],
  ['english_multichoice', verifier('english_multichoice'), 'Answer: B', 'B'],
  ['multilingual_multichoice', verifier('multilingual_multichoice'), 'Answer: B', 'B'],
  ['multichoice', verifier('multichoice'), 'Answer: B', 'B'],
  ['multi_reward', verifier('multi_reward'), '<answer>42</answer>', '42'],
  ['exact_alnum', vlm('exact_alnum'), '<answer>42</answer>', '42'],
  ['bbox_giou', vlm('bbox_giou'), '<answer>[0,0,1,1]</answer>', '[0,0,1,1]'],
  ['math_expr', vlm('math_expr'), '<answer>42</answer>', '42'],
  ['geo3k', vlm('geo3k'), '</think>\\boxed{42}', '42'],
  ['code_jaccard', { kind: 'code_jaccard' }, 'return 42', 'return 42'],
];

describe('an example in the prompt', () => {
  for (const [name, settings, answer, ground_truth] of GRADERS) {
    const log = [user('example'), said(answer), user('question'), said('\nI do not know')];

    test(`is not the policy’s answer for ${name} under standard`, async () => {
      assert.equal(await rewardOf({ settings, ground_truth, log, prompt_length: 3 }), 0);
    });

    test(`does not hide the policy’s answer from ${name} under standard`, async () => {
      const right = [user('example'), said('Answer: 7'), user('question'), said(answer)];
      assert.equal(await rewardOf({ settings, ground_truth, log: right, prompt_length: 3 }), 1);
    });

    test(`counts for ${name} under upstream’s rules`, async () => {
      assert.notEqual(await rewardOf({ settings, ground_truth, log }), 0);
    });
  }
});

describe('a thought', () => {
  for (const [name, settings, answer, ground_truth] of GRADERS.filter(
    ([grader]) => grader !== 'geo3k',
  )) {
    const rewardOfSaid = (...contents: string[]) =>
      rewardOf({
        settings,
        ground_truth,
        log: [user('question'), ...contents.map(said)],
        prompt_length: 1,
      });

    test(`is no answer for ${name} under standard, whether it ends or not`, async () => {
      assert.equal(await rewardOfSaid(`<think>\n${answer}\n`), 0);
      assert.equal(await rewardOfSaid(`<think>\n${answer}\n</think>\nI do not know`), 0);
      // The template may have opened it.
      assert.equal(await rewardOfSaid(`${answer}\n</think>\nI do not know`), 0);
    });

    test(`hides no answer from ${name} under standard, before it, behind it or in another message`, async () => {
      for (const contents of [
        [`<think>Answer: 7</think>\n${answer}`],
        [`Answer: 7\n</think>\n${answer}`],
        [`${answer}\n<think>Answer: 7`],
        [answer, '<think>That is it.</think>'],
      ])
        assert.equal(await rewardOfSaid(...contents), 1, contents.join(' | '));
    });
  }

  test('earns geo3k its format alone', async () => {
    const asked = { settings: vlm('geo3k'), ground_truth: '42', prompt_length: 1 };
    const thought = said('<think>\\boxed{42}</think>\\boxed{7}');
    assert.equal(await rewardOf({ ...asked, log: [user('question'), thought] }), 0.1);
  });

  test('counts as upstream’s rule has it', async () => {
    const asked = { settings: verifier('hf_math_verify'), ground_truth: '42' };
    const log = [user('question'), said('<think>\\boxed{42}')];
    assert.equal(await rewardOf({ ...asked, log }), 1);
  });
});

describe('several messages of the policy', () => {
  const log = [user('question'), said('Answer: 1'), user('go on'), said('2')];
  const settings = verifier('dapo_math_verify');

  test('are on lines of their own under standard', async () => {
    const asked = { settings, log, prompt_length: 1 };
    assert.equal(await rewardOf({ ...asked, ground_truth: '1' }), 1);
    assert.equal(await rewardOf({ ...asked, ground_truth: '12' }), 0);
  });

  test('are one text without a separator under upstream’s rules', async () => {
    assert.equal(await rewardOf({ settings, log, ground_truth: '12' }), 1);
  });
});
