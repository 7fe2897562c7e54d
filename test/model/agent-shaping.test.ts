import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  AS_ANSWERED,
  readAnswer,
  type AnswerRules,
} from '../../src/environments/gym-agent/answer.js';
import { GymAgentSettings } from '../../src/environments/gym-agent/kind.js';
import { effortOf } from '../../src/model/agent/shaping.js';
import { EffortLevels, RewardPenalties } from '../../src/model/agent/shaping-settings.js';
import type { AgentAnswer } from '../../src/environments/environment.js';

/** What upstream makes of rewards is recorded (`recorded-results.test.ts`). Here is what the records leave open. */

const levels = EffortLevels.parse({
  low_weight: 0.5,
  low_penalty: 2,
  low_ub: 8,
  low_string: 'low',
});
const rowWith = (input: unknown): object => ({ responses_create_params: { input } });
const call = (more: object = {}): object => ({
  type: 'message',
  content: [{ text: 'four' }],
  prompt_token_ids: [1, 2],
  generation_token_ids: [3, 4],
  generation_log_probs: [-0.5, -0.25],
  ...more,
});
const answerWith = (output: object[], more: object = {}): string =>
  JSON.stringify({ reward: 1, response: { output }, ...more });

function read(
  text: string,
  { row = rowWith('low'), ...rules }: Partial<AnswerRules> & { row?: object } = {},
): AgentAnswer {
  const context = { rules: { ...AS_ANSWERED, ...rules }, row: JSON.stringify(row), texts: null };
  const answer = readAnswer({ text, value: JSON.parse(text) }, context);
  assert.ok(!Array.isArray(answer), JSON.stringify(answer));
  return answer;
}

describe('effort levels', () => {
  const isLow = (input: unknown): boolean | undefined =>
    effortOf(levels, { reward: 1, length: 2, row: rowWith(input) })?.low;

  test('look at the last user message that has a content, and at an input that is a text', () => {
    const user = (content: unknown): object => ({ role: 'user', content });
    assert.equal(
      isLow([user('low'), { role: 'assistant', content: 'low' }, { role: 'user' }]),
      true,
    );
    assert.equal(isLow([user('low'), user('high')]), false);
    assert.equal(isLow([{ role: 'system', content: 'low' }]), false);
    assert.equal(isLow([user([{ type: 'input_text', text: 'low' }])]), false);
    assert.equal(isLow([user(['low'])]), true);
    assert.equal(isLow([user(null)]), false);
    assert.equal(isLow('be low'), true);
    assert.equal(isLow(undefined), false);
  });

  test('are off without a weight, and without a text', () => {
    const off = { reward: 1, length: 2, row: rowWith('low') };
    assert.equal(effortOf({ ...levels, low_weight: 0 }, off), null);
    assert.equal(effortOf({ ...levels, low_weight: -1 }, off), null);
    assert.equal(effortOf({ ...levels, low_string: '' }, off), null);
  });

  test('add at most the reward itself, and a long call costs as much as it is longer', () => {
    const rewardOf = (length: number, more = {}): unknown =>
      effortOf({ ...levels, ...more }, { reward: 1, length, row: rowWith('low') })?.reward;
    assert.equal(rewardOf(0, { low_weight: 50 }), 2);
    assert.deepEqual([rewardOf(8), rewardOf(4), rewardOf(16)], [1, 1.25, 0]);
  });

  test('count the last call alone, however long those before it were (NVIDIA-NeMo/RL#4099)', () => {
    const ids = (length: number, first: number): number[] =>
      Array.from({ length }, (_, i) => first + i);
    const said = (prompt: number[], generated: number[]): object =>
      call({
        prompt_token_ids: prompt,
        generation_token_ids: generated,
        generation_log_probs: generated.map(() => -1),
      });
    const calls = [said([1], ids(900, 10)), said([1, ...ids(900, 10), 2], ids(100, 2000))];
    const effort_levels = { low_weight: 1, low_penalty: 1, low_ub: 1000, low_string: 'low' };
    assert.equal(read(answerWith(calls), { effort_levels }).reward, 1.9);
  });

  test('change the reward of the row, which keeps the own one beside it', () => {
    const { reward, shaping } = read(answerWith([call()]), { effort_levels: levels });
    assert.equal(reward, 1.375);
    const effort = { low: true, length: 2, length_reward: 0.375, reward: 1.375 };
    assert.deepEqual(shaping, { reward: 1, effort });
  });

  test('that leave a reward which no array holds are a fault, no row', () => {
    const { refused } = read(answerWith([call()], { reward: 9e29 }), { effort_levels: levels });
    assert.match(refused?.message ?? '', /^expected a reward that effort_levels leave between/);
  });
});

describe('penalties', () => {
  const every = RewardPenalties.parse({
    penalize_duplicated_reasoning: true,
    penalize_empty_final_answer: true,
    penalize_unwanted_tokens: true,
    penalize_malformed_think_tag: true,
    token_ids: { unwanted: [9], think_open: 7, think_close: 8 },
  });
  const found = (output: object[]): unknown => {
    const { shaping } = read(answerWith(output), { reward_penalties: every });
    return Object.entries(shaping?.penalties ?? {}).flatMap(([name, has]) => (has ? [name] : []));
  };

  test('find nothing in a sound answer, whose reward stays', () => {
    assert.deepEqual(found([call()]), []);
    const { reward, shaping } = read(answerWith([call()]), { reward_penalties: every });
    assert.deepEqual([reward, shaping?.reward], [1, 1]);
    assert.equal(Object.keys(shaping?.penalties ?? {}).length, 4);
  });

  for (const [what, output, mistakes] of [
    [
      'a thought that is repeated by a text',
      [{ type: 'reasoning', summary: [{ text: ' four\u2003' }] }, call({ content: 'four' })],
      ['duplicated_reasoning'],
    ],
    [
      'a thought that is repeated later alone',
      [{ type: 'reasoning', summary: [{ text: 'four' }] }, { type: 'function_call' }, call()],
      [],
    ],
    ['a thought without a text', [{ type: 'reasoning', summary: [] }, call()], []],
    [
      'an answer that is empty before a tool call',
      [call({ content: [{ text: ' ' }] }), { type: 'function_call' }],
      [],
    ],
    [
      'no message at all',
      [call({ type: 'reasoning', content: null, summary: [{ text: 'x' }] })],
      ['empty_final_answer'],
    ],
    [
      'a message without parts behind one with text',
      [call(), { type: 'message', content: [] }],
      [],
    ],
    [
      'an unwanted token in the middle',
      [call({ generation_token_ids: [9, 4] })],
      ['unwanted_token'],
    ],
    ['an unwanted token in the prompt alone', [call({ prompt_token_ids: [9] })], []],
    [
      'an open thought that is closed',
      [call({ prompt_token_ids: [1, 7], generation_token_ids: [3, 8] })],
      [],
    ],
    [
      'an open thought that stays open',
      [call({ prompt_token_ids: [1, 7] })],
      ['malformed_think_tag'],
    ],
    [
      'a closed thought that is closed again',
      [call({ prompt_token_ids: [7, 8], generation_token_ids: [3, 8] })],
      ['malformed_think_tag'],
    ],
    [
      'a prompt that closes more than it opens',
      [call({ prompt_token_ids: [8] })],
      ['malformed_think_tag'],
    ],
    [
      'a prompt that opens two thoughts',
      [call({ prompt_token_ids: [7, 7], generation_token_ids: [3, 8] })],
      ['malformed_think_tag'],
    ],
    [
      'a tag in the text of an answer',
      [call({ content: [{ text: 'a</think>b' }] })],
      ['malformed_think_tag'],
    ],
  ] as const) {
    test(`find ${mistakes.length === 0 ? 'no mistake' : mistakes.join()} in ${what}`, () => {
      assert.deepEqual(found([...output]), mistakes);
    });
  }

  test('win over effort levels, and the row tells both', () => {
    const { reward, shaping } = read(answerWith([call({ content: [{ text: ' ' }] })]), {
      reward_penalties: every,
      effort_levels: levels,
    });
    assert.equal(reward, 0);
    assert.equal(shaping?.effort?.reward, 1.375);
  });

  test('leave an answer without tokens alone: nothing is trained on it', () => {
    const bare = { type: 'message', content: [{ text: '' }] };
    const { reward, shaping } = read(answerWith([bare]), {
      reward_penalties: every,
      effort_levels: levels,
    });
    assert.deepEqual([reward, shaping], [1, undefined]);
  });

  test('and components that do not sum to what they leave are a fault of that row', () => {
    const text = answerWith([call({ content: [{ text: ' ' }] })], { reward_components: { a: 1 } });
    const { refused } = read(text, { reward_penalties: every });
    assert.match(refused?.message ?? '', /got reward 0, but its reward_components sum to 1/);
  });
});

describe('settings of an environment', () => {
  const problem = (more: object): string =>
    GymAgentSettings.safeParse({ kind: 'gym_agent', agents: { a: 'http://a' }, ...more }).error
      ?.issues[0]?.message ?? 'none';

  test('are refused where a penalty lacks its ids, and where a thought has one tag', () => {
    assert.match(
      problem({ reward_penalties: { penalize_unwanted_tokens: true } }),
      /^expected ids as unwanted/,
    );
    assert.match(
      problem({ reward_penalties: { token_ids: { think_open: 1 } } }),
      /^expected both think_open and think_close/,
    );
    assert.match(
      problem({ thinking_tags: ['<think>'] }),
      /^expected a tag that opens a thought and/,
    );
    assert.match(problem({ effort_levels: { low_ub: 0 } }), /expected number to be >0/);
    // A switch in the wrong place would do nothing (NVIDIA-NeMo/RL#3391).
    assert.match(problem({ penalize_empty_final_answer: true }), /^Unrecognized key/);
    assert.match(problem({ reward_penalties: { effort_levels: {} } }), /^Unrecognized key/);
    assert.equal(problem({ reward_penalties: {}, effort_levels: {}, thinking_tags: [] }), 'none');
  });

  test('may train on answers with mask_sample as on any', () => {
    const text = answerWith([call()], { mask_sample: true });
    assert.equal(read(text).untrained, 'mask_sample');
    assert.equal(read(text, { should_mask_flagged_samples: false }).untrained, undefined);
  });
});

describe('components of a reward', () => {
  const componentsOf = (reward: unknown, reward_components: unknown): unknown => {
    const { rewards, refused } = read(answerWith([], { reward, reward_components }));
    return refused?.message ?? rewards;
  };

  test('may be booleans, as the reward may', () => {
    assert.deepEqual(componentsOf(true, { a: true, b: false }), { a: 1, b: 0 });
    assert.deepEqual(componentsOf(1.5, { a: true, b: 0.5 }), { a: 1, b: 0.5 });
  });

  test('are none where there is nothing', () => {
    for (const nothing of [null, {}, undefined]) assert.equal(componentsOf(1, nothing), undefined);
  });

  test('are refused by name where they are no numbers, rather than lost', () => {
    assert.match(
      String(componentsOf(1, { a: 1, b: null })),
      /^reward_components\.b: expected a finite number, got null$/,
    );
    assert.match(
      String(componentsOf(1, { a: '1' })),
      /^reward_components\.a: expected a finite number, got "1"$/,
    );
    assert.match(
      String(componentsOf(1, [1])),
      /^reward_components: expected an object, got \[1\]$/,
    );
  });
});
