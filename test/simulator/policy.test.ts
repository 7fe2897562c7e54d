import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  createPolicy,
  type Generation,
  type PolicyRequest,
} from '../../simulator/policy/policy.js';
import { createRandom } from '../../simulator/random.js';
import { renderChat } from '../../simulator/policy/chat-template.js';
import { decode, encode, IM_END } from '../../simulator/policy/tokenizer.js';
import { BOARD_2X2, BOARD_3X3, observation, taskPrompt, taskText } from './puzzle-prompts.js';

const policy = createPolicy();
const CHAT = encode(
  renderChat([{ role: 'user', content: 'What is 2 + 2?' }], { add_generation_prompt: true }),
);
const PUZZLE = taskPrompt(BOARD_3X3);
const NEUTRAL = { temperature: 1, top_p: 1, top_k: -1, min_p: 0 };
const GREEDY = { ...NEUTRAL, temperature: 0 };

type Request = Partial<Omit<PolicyRequest, 'random'>> & { seed?: number };

function answer({ seed, ...request }: Request): Generation {
  return policy({
    prompt: PUZZLE,
    max_tokens: 500,
    min_tokens: 0,
    ignore_eos: false,
    sampling: NEUTRAL,
    skill: 1,
    thinking: [8, 40],
    ...request,
    random: createRandom(seed ?? 1),
  });
}

const textOf = ({ token_ids }: Generation): string =>
  decode(token_ids, { skip_special_tokens: false });

describe('answers', () => {
  test('about a puzzle are thoughts, an action on a line of its own and the end of sequence', () => {
    const wellFormed =
      /^[^<\n]* \n(<action>(up|down|left|right|view)<\/action>|No move looks right\.)<\|im_end\|>$/u;
    for (let seed = 0; seed < 300; seed++) assert.match(textOf(answer({ seed })), wellFormed);
  });

  test('about anything else are thoughts and the end of sequence', () => {
    for (let seed = 0; seed < 100; seed++) {
      assert.match(textOf(answer({ seed, prompt: CHAT })), /^[^<\n]* <\|im_end\|>$/u);
    }
  });

  test('repeat with the seed and the settings, and differ with another seed', () => {
    assert.deepEqual(answer({ seed: 7 }), answer({ seed: 7 }));
    assert.deepEqual(
      createPolicy()({
        prompt: PUZZLE,
        max_tokens: 500,
        min_tokens: 0,
        ignore_eos: false,
        sampling: NEUTRAL,
        skill: 1,
        thinking: [8, 40],
        random: createRandom(7),
      }),
      answer({ seed: 7 }),
    );
    const different = new Set(Array.from({ length: 50 }, (_x, seed) => textOf(answer({ seed }))));
    assert.ok(different.size > 45);
  });

  test('think exactly as many tokens as a fixed number says', () => {
    for (const tokens of [0, 1, 2, 3, 7, 24, 100]) {
      for (let seed = 0; seed < 20; seed++) {
        const { token_ids } = answer({ seed, thinking: [tokens, tokens] });
        assert.equal(token_ids.indexOf(10), tokens);
      }
    }
  });

  test('think all lengths of a range, none outside it', () => {
    const lengths = Array.from({ length: 500 }, (_x, seed) =>
      answer({ seed, thinking: [5, 20] }).token_ids.indexOf(10),
    );
    assert.deepEqual(
      [...new Set(lengths)].sort((a, b) => a - b),
      Array.from({ length: 16 }, (_x, i) => 5 + i),
    );
  });

  test('think about as long as a log-normal law says, and greedily to its median', () => {
    const thinking = { median: 60, sigma: 0.5 };
    const lengthOf = (request: Request): number =>
      answer({ thinking, max_tokens: 2000, ...request }).token_ids.indexOf(10);
    const lengths = Array.from({ length: 1000 }, (_x, seed) => lengthOf({ seed })).sort(
      (a, b) => a - b,
    );
    const shareBelow = (most: number): number => lengths.filter((one) => one < most).length / 1000;
    // A word may go on for some tokens behind what was drawn.
    for (const [deviations, share] of [
      [-1, 0.159],
      [0, 0.5],
      [1, 0.841],
      [2, 0.977],
    ] as const) {
      const below = shareBelow(3 + 60 * Math.exp(0.5 * deviations));
      assert.ok(Math.abs(below - share) < 0.05, `${below} below ${deviations} deviations`);
    }
    const greedy = lengthOf({ sampling: GREEDY });
    assert.ok(greedy >= 60 && greedy < 72, `${greedy}`);
  });

  test('end at max_tokens, and not before min_tokens', () => {
    const whole = answer({ seed: 3 });
    const cut = answer({ seed: 3, max_tokens: 9 });
    assert.deepEqual(cut.token_ids, whole.token_ids.slice(0, 9));
    assert.equal(cut.logprobs.length, 9);
    for (const prompt of [CHAT, PUZZLE]) {
      const long = answer({ seed: 3, prompt, min_tokens: 150 });
      assert.ok(long.token_ids.length > 150);
      assert.equal(long.token_ids.indexOf(IM_END), long.token_ids.length - 1);
    }
  });

  test('continue after the end of sequence when it is to be ignored', () => {
    const { token_ids } = answer({ ignore_eos: true, max_tokens: 300 });
    assert.equal(token_ids.length, 300);
    assert.ok(token_ids.indexOf(IM_END) < 299);
  });

  test('take the best move of the current board with skill, after all moves of the conversation', () => {
    const first = taskPrompt(BOARD_2X2);
    const sampling = GREEDY;
    assert.match(textOf(answer({ prompt: first, sampling })), /<action>up</);
    const second = [
      ...first,
      ...encode('it \n<action>up</action>'),
      ...encode(observation('Slid tile 1 up.')),
    ];
    assert.match(textOf(answer({ prompt: second, sampling })), /<action>left</);
  });

  test('are found in a prompt without a chat template too', () => {
    const prompt = encode(taskText(BOARD_2X2));
    assert.match(textOf(answer({ prompt, sampling: GREEDY })), /^the .*<action>up</s);
  });
});

describe('a resumed answer', () => {
  test('continues as the whole one did, greedily and token by token, wherever it was cut', () => {
    const afterMove = [
      ...taskPrompt(BOARD_2X2),
      ...encode(`it \n<action>up</action>${observation('Slid tile 1 up.')}`),
    ];
    const afterLine = [...CHAT, ...encode('the tile <|im_end|>\n2 left\n')];
    const afterCutTurn = [...CHAT, ...encode('the ti2 left\nthen 1 is left\n')];
    const bare = encode(taskText(BOARD_3X3));
    for (const prompt of [PUZZLE, CHAT, afterMove, bare, afterLine, afterCutTurn]) {
      const whole = answer({ prompt, sampling: GREEDY });
      for (let cut = 0; cut < whole.token_ids.length; cut++) {
        const said = whole.token_ids.slice(0, cut);
        const rest = answer({ prompt: [...prompt, ...said], sampling: GREEDY });
        assert.deepEqual(rest.token_ids, whole.token_ids.slice(cut), `cut at ${cut}`);
        assert.deepEqual(rest.logprobs, whole.logprobs.slice(cut), `cut at ${cut}`);
      }
    }
  });

  test('completes the word or action it was cut in, whatever was said and however it is sampled', () => {
    const places = fc.record({
      seed: fc.nat(1000),
      at: fc.nat(200),
      sampling: fc.constantFrom(NEUTRAL, GREEDY, { ...NEUTRAL, top_k: 1 }),
    });
    fc.assert(
      fc.property(places, ({ seed, at, sampling }) => {
        const whole = answer({ seed });
        const said = whole.token_ids.slice(0, at % whole.token_ids.length);
        const rest = answer({ seed: seed + 1, prompt: [...PUZZLE, ...said], sampling });
        const text = textOf({ ...rest, token_ids: [...said, ...rest.token_ids] });
        assert.match(
          text,
          /^[^<\n]* \n(<action>[a-z]+<\/action>|No move looks right\.)<\|im_end\|>$/u,
        );
        assert.ok(!text.includes('\uFFFD'));
        assert.ok(rest.logprobs.every((logprob) => Number.isFinite(logprob) && logprob <= 0));
      }),
      { numRuns: 300 },
    );
  });

  test('starts afresh after a text that the policy would not say', () => {
    const prompt = [...PUZZLE, ...encode('Hmm?')];
    assert.match(textOf(answer({ prompt, sampling: GREEDY })), /^the .*<\|im_end\|>$/s);
  });
});
