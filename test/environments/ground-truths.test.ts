import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ExactEnvironment } from '../../src/environments/environment.js';
import type { GraderPool } from '../../src/environments/math/grader-pool.js';
import { markedAnswer } from '../../src/environments/math/ground-truth.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { Fault } from '../../src/model/faults.js';
import { bareContext } from '../fakes/environment-context.js';
import { rejectionOf, said } from '../fakes/environment-steps.js';
import { poolFor, skip as noGrader } from './math/grader-fixture.js';
import { context } from './step-once.js';

const create = (settings: object, grader?: GraderPool): Promise<ExactEnvironment> =>
  createEnvironment(EnvironmentSettings.parse(settings), bareContext(grader && { grader }));

const planned = async (settings: object, ground_truth: unknown): Promise<string[]> => {
  const environment = await create(settings);
  const problems = environment.sampleProblems?.({ ground_truth }, { is_standard: true }) ?? [];
  return problems.map(({ where, what }) => `${where}: ${what}`);
};

const step = (environment: ExactEnvironment, ground_truth: string) =>
  environment.step(
    { message_log: [said('I do not know')], metadata: { ground_truth } },
    { ...context, prompt_length: 0 },
  );

const math = (verifier: string) => ({ kind: 'math', verifier });
const vlm = (...names: string[]) => ({
  kind: 'vlm',
  reward_functions: names.map((name) => ({ name, weight: 1 })),
});

const itself = 'expected a ground truth that is rewarded as an answer, got';
const differs = 'expected a text that an empty answer does not match, got';
const perhaps = 'expected the answer alone, which is perhaps';

/** Ground truths that pay every answer alike, or that only their own decoration equals. */
const REFUSED: [settings: object, ground_truth: string, what: string][] = [
  [math('dapo_math_verify'), '', differs],
  [math('dapo_math_verify'), ' ', differs],
  [math('dapo_math_verify'), 'units', differs],
  [math('dapo_math_verify'), '[INVALID]', differs],
  [math('dapo_math_verify'), '#### 42', `${perhaps} "42", got "#### 42"`],
  [math('dapo_math_verify'), '6 * 7 = 42\n#### 42', itself],
  [math('dapo_math_verify'), '42.', `${perhaps} "42", got "42."`],
  [math('dapo_math_verify'), 'x'.repeat(300), itself],
  [math('english_multichoice'), '', itself],
  [math('english_multichoice'), '(C)', itself],
  [math('english_multichoice'), 'Cat', itself],
  [math('english_multichoice'), 'C.', itself],
  [math('english_multichoice'), 'Ｃ', itself],
  [math('multilingual_multichoice'), '(C)', itself],
  [math('multilingual_multichoice'), 'E', itself],
  [math('multichoice'), 'Cat', 'expected a letter such as "C", got "Cat"'],
  [math('multi_reward'), '', differs],
  [math('multi_reward'), ' 42', itself],
  [math('multi_reward'), '#### 42', `${perhaps} "42", got "#### 42"`],
  [math('multi_reward'), '<answer>42</answer>', itself],
  [vlm('exact_alnum'), '', differs],
  [vlm('exact_alnum'), '≥', differs],
  [
    vlm('bbox_giou'),
    '[1,1,0,0]',
    'expected a box [x1, y1, x2, y2] with x1 < x2 and y1 < y2, got "[1,1,0,0]"',
  ],
  [vlm('bbox_giou'), '42', 'expected a box'],
  [vlm('bbox_giou', 'format'), '', 'expected a box'],
  [vlm('bbox_giou', 'math_expr'), '', 'expected '],
  [{ kind: 'math' }, ' \n', 'expected an answer, got'],
  [vlm('geo3k'), '', 'expected an answer, got'],
  [{ kind: 'code_jaccard' }, ' ', 'expected code, got'],
];

/** The same environments with ground truths that can be equalled. */
const TAKEN: [settings: object, ...ground_truths: string[]][] = [
  [math('dapo_math_verify'), '42', '\\frac{1}{2}', '3.5', 'a dog', '-1', '1,000'],
  [math('english_multichoice'), 'C', 'c', 'J'],
  [math('multilingual_multichoice'), 'A', 'D'],
  [math('multichoice'), 'C', '(C)', 'c.'],
  [math('multi_reward'), '42', 'a dog'],
  [vlm('exact_alnum'), '42', 'a dog', '≥ 3'],
  [vlm('bbox_giou'), '[0,0,1,1]', '0, 0, 0.01, 0.01'],
  [vlm('format'), ''],
  [vlm('bbox_giou', 'exact_alnum'), '[0,0,1,1]', '42'],
  [vlm('bbox_giou', 'math_expr'), '42'],
  [{ kind: 'code_jaccard' }, 'return 42 #### done'],
];

describe('planning refuses', () => {
  for (const [settings, ground_truth, what] of REFUSED) {
    const title = JSON.stringify(settings).slice(0, 80);
    test(`${JSON.stringify(ground_truth).slice(0, 40)} of ${title}`, async () => {
      const [problem, ...others] = await planned(settings, ground_truth);
      assert.deepEqual(others, []);
      assert.ok(problem?.startsWith(`ground_truth: ${what}`), problem);
    });
  }

  test('none of those that can be equalled', async () => {
    for (const [settings, ...ground_truths] of TAKEN)
      for (const ground_truth of ground_truths)
        assert.deepEqual(await planned(settings, ground_truth), [], ground_truth);
  });

  test('under nemo-rl semantics only what is no text', async () => {
    for (const [settings, ground_truth] of REFUSED) {
      const environment = await create(settings);
      const problemsOf = (info: object) =>
        environment.sampleProblems?.({ ...info }, { is_standard: false }) ?? [];
      assert.deepEqual(problemsOf({ ground_truth }), []);
      assert.equal(problemsOf({ ground_truth: 42 }).length, 1);
    }
  });
});

describe('a step', () => {
  const pure = REFUSED.filter(
    ([settings]) => !/"kind":"math"}|geo3k|math_expr/.test(JSON.stringify(settings)),
  );

  test('rejects what planning refuses, and gives it no reward', async () => {
    for (const [settings, ground_truth, what] of pure) {
      const message = await rejectionOf(step(await create(settings), ground_truth));
      assert.match(message, /^(?:math|vlm|multichoice|code jaccard): ground_truth: expected /);
      assert.ok(message.includes(what), message);
    }
  });

  test('keeps upstream’s reward where its rules hold', async () => {
    const environment = await create(math('english_multichoice'));
    const { reward } = await environment.step(
      { message_log: [said('Answer: C')], metadata: { ground_truth: '(C)' } },
      context,
    );
    assert.equal(reward, 0);
  });
});

test('the marked part of a text is its answer', () => {
  for (const [text, marked] of [
    ['6 * 7 = <<6*7=42>>42\n#### 42', '42'],
    ['The answer is 42.', '42'],
    ['Answer: 42', '42'],
    ['<answer>42</answer>', '42'],
    ['42.', '42'],
    ['3.5', null],
    ['42', null],
    [' 42 ', null],
    ['####', null],
    ['e.g. this.', null],
  ] as const)
    assert.equal(markedAnswer(text), marked, text);
});

describe('math-verify is asked about a ground truth', { skip: noGrader }, () => {
  const signal = new AbortController().signal;

  test('and those are refused that only their own text equals', async (t) => {
    const environment = await create({ kind: 'math' }, poolFor(t));
    const ask = async (ground_truth: string): Promise<string[]> =>
      ((await environment.askAboutSample?.({ ground_truth }, signal)) ?? []).map(
        ({ what }) => what,
      );
    for (const [ground_truth, what] of [
      ['#### 42', `${perhaps} "42", got "#### 42"`],
      ['6 * 7 = 42\n#### 42', `${perhaps} "42", got`],
      ['The answer is 42', `${perhaps} "42", got`],
      ['42.', `${perhaps} "42", got`],
      ['}', itself],
    ] as const) {
      const [problem] = await ask(ground_truth);
      assert.ok(problem?.startsWith(what), `${ground_truth}: ${problem}`);
      assert.match(await rejectionOf(step(environment, ground_truth)), /^math: ground_truth: /);
    }
    for (const ground_truth of [
      '42',
      '\\frac{1}{2}',
      '50\\%',
      '(C)',
      'C',
      '$42$',
      '[0, 1)',
      'x = 5',
      '\\text{no solution}',
      '\\boxed{42}',
      '0.\\overline{1}',
      '1,000',
      '北京',
    ]) {
      assert.deepEqual(await ask(ground_truth), [], ground_truth);
      assert.equal((await step(environment, ground_truth)).reward, 0);
    }
  });
});

describe('what the grader says about a ground truth', () => {
  const signal = new AbortController().signal;
  const scripted = (compare: GraderPool['compare']): GraderPool => ({
    ...bareContext().grader,
    compare,
  });

  test('is asked once, and only when a response gets nothing', async () => {
    const asked: string[] = [];
    const grader = scripted(({ gold, answer }) => {
      asked.push(answer);
      return Promise.resolve({ score: Number(answer === gold), extracted_answer: null });
    });
    const environment = await create({ kind: 'math' }, grader);
    const input = (text: string) => ({
      message_log: [said(text)],
      metadata: { ground_truth: '4' },
    });
    const standard = { ...context, prompt_length: 0 };
    await environment.step(input('\\boxed{4}'), standard);
    assert.deepEqual(asked, ['\\boxed{4}']);
    for (const text of ['5', '6', '7']) await environment.step(input(text), standard);
    assert.deepEqual(asked, ['\\boxed{4}', '5', '\\boxed{4}', '6', '7']);
  });

  test('if it has no verdict, changes no verdict on a response', async () => {
    const grader = scripted(({ gold, answer }) =>
      answer === gold
        ? Promise.reject(new Fault({ type: 'EnvironmentRejected', message: 'no verdict' }))
        : Promise.resolve({ score: 0, extracted_answer: null }),
    );
    const environment = await create({ kind: 'math' }, grader);
    assert.equal((await step(environment, '4')).reward, 0);
    assert.deepEqual(await environment.askAboutSample?.({ ground_truth: '4' }, signal), []);
  });
});
