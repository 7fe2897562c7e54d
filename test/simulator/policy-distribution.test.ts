import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Sampling } from '../../simulator/policy/distribution.js';
import { createPolicy, type Generation } from '../../simulator/policy/policy.js';
import { createRandom } from '../../simulator/random.js';
import { decode, encode } from '../../simulator/policy/tokenizer.js';
import { BOARD_3X3_CORNER, taskPrompt } from './puzzle-prompts.js';

const NEUTRAL: Sampling = { temperature: 1, top_p: 1, top_k: -1, min_p: 0 };
const SAMPLES = 6000;

interface Setup {
  prompt?: number[];
  sampling?: Partial<Sampling>;
  skill?: number;
  thinking?: [number, number];
}

/** How often each answer came in many draws from one stream, and the probability that its logprobs claim. */
function draw({ prompt, sampling, skill, thinking }: Setup) {
  const policy = createPolicy();
  const random = createRandom(2026);
  const seen = new Map<string, { count: number; probability: number }>();
  for (let i = 0; i < SAMPLES; i++) {
    const generation = policy({
      prompt: prompt ?? taskPrompt(BOARD_3X3_CORNER),
      max_tokens: 200,
      min_tokens: 0,
      ignore_eos: false,
      sampling: { ...NEUTRAL, ...sampling },
      skill: skill ?? 1,
      thinking: thinking ?? [0, 0],
      random,
    });
    const text = decode(generation.token_ids, { skip_special_tokens: false });
    const entry = seen.get(text) ?? { count: 0, probability: probabilityOf(generation) };
    assert.ok(Math.abs(entry.probability - probabilityOf(generation)) < 1e-6, text);
    entry.count += 1;
    seen.set(text, entry);
  }
  return seen;
}

function probabilityOf({ logprobs }: Generation): number {
  return Math.exp(logprobs.reduce((sum, logprob) => sum + logprob, 0));
}

/** Pearson's statistic of the observed counts; answers expected less than 10 times are one class. */
function chiSquare(seen: ReturnType<typeof draw>) {
  const common = [...seen.values()].filter(({ probability }) => probability * SAMPLES >= 10);
  const rest = {
    count: SAMPLES - common.reduce((sum, { count }) => sum + count, 0),
    probability: 1 - common.reduce((sum, { probability }) => sum + probability, 0),
  };
  const classes = rest.probability * SAMPLES >= 1 ? [...common, rest] : common;
  const value = classes.reduce((sum, { count, probability }) => {
    const expected = probability * SAMPLES;
    return sum + (count - expected) ** 2 / expected;
  }, 0);
  return { value, freedom: classes.length - 1 };
}

/** The statistic has mean `freedom` and variance 2 x freedom; the seed is fixed. */
function assertMatches(seen: ReturnType<typeof draw>): void {
  const { value, freedom } = chiSquare(seen);
  const limit = freedom + 4 * Math.sqrt(2 * freedom) + 4;
  assert.ok(value < limit, `chi-square ${value.toFixed(1)} with ${freedom} degrees of freedom`);
}

const action = (name: string): string => `\n<action>${name}</action><|im_end|>`;
const UNTAGGED = '\nNo move looks right.<|im_end|>';

describe('the distribution of actions', () => {
  // The empty space is at the right edge: `left` is illegal; `up` solves the board, the others lead away from it.
  const expected = (skill: number, temperature = 1): Record<string, number> => {
    const slips = 0.1 * Math.exp(-skill);
    const worse = Math.exp((-2 * skill) / temperature);
    const good = 1 / (1 + 2 * worse);
    return {
      [action('up')]: (1 - slips) * good,
      [action('down')]: (1 - slips) * good * worse,
      [action('right')]: (1 - slips) * good * worse,
      [action('left')]: slips / 3,
      [action('view')]: slips / 3,
      [UNTAGGED]: slips / 3,
    };
  };

  for (const [skill, temperature] of [
    [1, 1],
    [0.5, 2],
  ] as const) {
    test(`is the softmax of the distances with skill ${skill} at temperature ${temperature}, and the answers have it`, () => {
      const seen = draw({ skill, sampling: { temperature } });
      const probabilities = expected(skill, temperature);
      for (const [text, { probability }] of seen) {
        assert.ok(Math.abs(probability - (probabilities[text] ?? -1)) < 1e-6, text);
      }
      assert.ok(seen.size >= 4);
      assertMatches(seen);
    });
  }

  test('gives the best action alone to a greedy request, with its probability at temperature 1', () => {
    const seen = draw({ sampling: { temperature: 0 } });
    assert.deepEqual([...seen.keys()], [action('up')]);
    const probability = expected(1)[action('up')] ?? 0;
    assert.ok(Math.abs((seen.get(action('up'))?.probability ?? 0) - probability) < 1e-6);
  });

  test('is cut by top_k, top_p and min_p and sums to 1 again', () => {
    const cuts: [Partial<Sampling>, string[]][] = [
      [{ top_k: 1 }, ['up']],
      [{ top_k: 3 }, ['down', 'right', 'up']],
      [{ top_p: 0.7 }, ['up']],
      [{ top_p: 0.8 }, ['down', 'up']],
      [{ min_p: 0.1 }, ['down', 'right', 'up']],
      [{ min_p: 0.5 }, ['up']],
    ];
    for (const [sampling, names] of cuts) {
      const seen = draw({ sampling });
      assert.deepEqual([...seen.keys()].sort(), names.map(action).sort());
      const sum = [...seen.values()].reduce((total, { probability }) => total + probability, 0);
      assert.ok(Math.abs(sum - 1) < 1e-6, `${JSON.stringify(sampling)}: ${sum}`);
      assertMatches(seen);
    }
  });
});

describe('the distribution of thoughts', () => {
  const chat = encode('What is 2 + 2?');

  for (const [thinking, sampling] of [
    [[0, 4], {}],
    [[2, 5], { temperature: 0.7, top_p: 0.9 }],
  ] as const) {
    const name = `${thinking.join(' to ')} tokens with ${JSON.stringify(sampling)}`;
    test(`is what the logprobs say: ${name}`, () => {
      const seen = draw({ prompt: chat, thinking: [...thinking], sampling });
      const sum = [...seen.values()].reduce((total, { probability }) => total + probability, 0);
      // Nearly all answers there are have been seen, and their probabilities add up.
      assert.ok(sum > 0.99 && sum < 1 + 1e-6, `sum ${sum}`);
      assertMatches(seen);
    });
  }
});
