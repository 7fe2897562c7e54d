import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import type { Metadata } from '../../src/environments/environment.js';
import { createGraderPool, installedGrader } from '../../src/environments/math/grader-pool.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { generate } from '../../src/environments/sliding-puzzle/board.js';
import { bareContext } from '../fakes/environment-context.js';
import { GIVEN, skip as noGrader } from './math/grader-fixture.js';
import { context } from './step-once.js';

/** The range of each built-in reward (docs/environment-kinds.md, docs/built-in-kinds.md), for texts of policies. */

const word = fc.constantFrom(
  ...[
    'Answer:',
    'the answer is',
    'A',
    'B',
    '(C)',
    '**D**',
    '42',
    '-1',
    '0',
    '1/2',
    '1e308',
    '-inf',
    'nan',
    '½',
    '\n',
  ],
  ...[
    '<think>',
    '</think>',
    '\n',
    '<answer>',
    '</answer>',
    '[',
    ']',
    ',',
    '[0,0,1,1]',
    '[2,2,-100,-100]',
    '1e999',
  ],
  ...[
    '\\boxed{',
    '}',
    '$',
    '\\frac{1}{2}',
    '\\text{B}',
    'slide 1 2',
    '<action>',
    'up',
    'left',
    '</action>',
    '😀',
    '：',
  ],
  ...[
    '[5, 3, sum]<call: calculator>',
    '<final_answer>',
    '8',
    '</final_answer>',
    'def f(x):',
    'return x',
    'İ',
    '\u0000',
  ],
);
const text = fc.oneof(
  { weight: 5, arbitrary: fc.array(word, { maxLength: 12 }).map((words) => words.join(' ')) },
  { weight: 2, arbitrary: fc.array(word, { maxLength: 12 }).map((words) => words.join('')) },
  {
    weight: 2,
    arbitrary: fc
      .array(fc.oneof(fc.double(), fc.integer()), { minLength: 3, maxLength: 5 })
      .map((box) => `<think>t</think>\n<answer>[${box.join(', ')}]</answer>`),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 60 }) },
);
/** What a policy says over several turns, and what it hears. */
const log = fc.array(text, { minLength: 1, maxLength: 3 }).map((said) =>
  said.flatMap((content, i) => [
    { role: i === 0 ? 'user' : 'environment', content: 'go on' },
    { role: 'assistant', content },
  ]),
);

interface Ranged {
  settings: unknown;
  metadata: fc.Arbitrary<Metadata>;
  /** Absent: 0 and 1 alone. */
  range?: readonly [least: number, greatest: number];
  runs?: number;
}

const truth = (...texts: string[]): fc.Arbitrary<Metadata> =>
  fc.constantFrom(...texts).map((ground_truth) => ({ ground_truth }));
const numbers = truth('42', '-1', '\\frac{1}{2}', '0.5');
const letters = truth('A', 'B', 'C', 'D');
const box = truth('[0,0,1,1]', '[0,0,0.01,0.01]', '[10,20,110,220]', '[-1e200,0,1e200,1e-100]');
const vlm = (...functions: [name: string, weight: number, kwargs?: object][]): unknown => ({
  kind: 'vlm',
  reward_functions: functions.map(([name, weight, kwargs = {}]) => ({ name, weight, kwargs })),
});
const puzzle = fc.integer({ min: 0, max: 40 }).map((moves) => ({
  game_state: generate({ size: 2, shuffle_moves: moves }, () => 0.3),
  num_moves: 0,
  max_moves: 5,
}));

/** What overflows or cancels out is rarer than what a word does. */
const OF_NUMBERS = 2000;

const RANGES: Record<string, Ranged> = {
  dapo_math_verify: { settings: { kind: 'math', verifier: 'dapo_math_verify' }, metadata: numbers },
  english_multichoice: {
    settings: { kind: 'math', verifier: 'english_multichoice' },
    metadata: letters,
  },
  multilingual_multichoice: {
    settings: { kind: 'math', verifier: 'multilingual_multichoice' },
    metadata: letters,
  },
  multichoice: { settings: { kind: 'math', verifier: 'multichoice' }, metadata: letters },
  'each component of multi_reward': {
    settings: { kind: 'math', verifier: 'multi_reward' },
    metadata: numbers,
  },
  format: { settings: vlm(['format', 1]), metadata: numbers, range: [0, 1] },
  exact_alnum: { settings: vlm(['exact_alnum', 2]), metadata: numbers },
  bbox_giou: { settings: vlm(['bbox_giou', 1]), metadata: box, range: [-1, 1], runs: OF_NUMBERS },
  'bbox_giou with a penalty threshold': {
    settings: vlm(['bbox_giou', 1, { giou_penalty_thres: 0.5 }]),
    metadata: box,
    range: [-1, 1],
    runs: OF_NUMBERS,
  },
  'a sum of functions': {
    settings: vlm(['bbox_giou', 0.7], ['format', 0.2], ['exact_alnum', 0.1]),
    metadata: box,
    range: [-1, 1],
    runs: OF_NUMBERS,
  },
  code_jaccard: { settings: { kind: 'code_jaccard' }, metadata: numbers, range: [0, 1] },
  calculator: {
    settings: { kind: 'calculator' },
    metadata: fc.constant({ expected_final_answer: 8, max_steps: 5, current_step: 0 }),
  },
  sliding_puzzle: { settings: { kind: 'sliding_puzzle' }, metadata: puzzle },
};

const GRADED: Record<string, Ranged> = {
  hf_math_verify: { settings: { kind: 'math' }, metadata: numbers },
  math_expr: { settings: vlm(['math_expr', 1]), metadata: numbers },
  geo3k: { settings: vlm(['geo3k', 1]), metadata: numbers, range: [0, 1] },
};

/** Of the rounding of a weighted sum. */
const ROUNDING = 1e-12;

const grader = createGraderPool({ ...installedGrader(GIVEN), max_processes: 1 });
after(() => grader.close());

function holds(
  name: string,
  { settings, metadata, range, runs }: Required<Pick<Ranged, 'runs'>> & Ranged,
): void {
  test(`${name}: ${range === undefined ? '0 or 1' : `from ${range.join(' to ')}`}`, async () => {
    const environment = await createEnvironment(
      EnvironmentSettings.parse(settings),
      bareContext({ grader }),
    );
    const property = fc.asyncProperty(log, metadata, async (message_log, info) => {
      const { reward: paid } = await environment.step(
        { message_log, metadata: info },
        { ...context, prompt_length: 1 },
      );
      for (const reward of typeof paid === 'number' ? [paid] : Object.values(paid)) {
        assert.ok(typeof reward === 'number');
        if (range === undefined) assert.ok(reward === 0 || reward === 1, String(reward));
        else
          assert.ok(reward >= range[0] - ROUNDING && reward <= range[1] + ROUNDING, String(reward));
      }
    });
    await fc.assert(property, { numRuns: runs });
  });
}

describe('a reward is in its range, whatever the policy writes', () => {
  for (const [name, ranged] of Object.entries(RANGES)) holds(name, { runs: 300, ...ranged });
});

describe('a reward of math-verify is in its range', { skip: noGrader }, () => {
  for (const [name, ranged] of Object.entries(GRADED)) holds(name, { runs: 50, ...ranged });
});
