import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AS_ANSWERED, endOf, type AnswerRules } from '../../src/environments/gym-agent/answer.js';
import { GymAgentSettings } from '../../src/environments/gym-agent/kind.js';
import type { PlayedCall } from '../../src/model/agent/penalties.js';
import { AgentSample } from '../../src/model/agent/sample.js';
import { effortOf } from '../../src/model/agent/shaping.js';
import { EffortLevels } from '../../src/model/agent/shaping.js';
import { RewardPenalties } from '../../src/model/agent/penalties.js';
import type { Conversation, ProgramEnd } from '../../src/environments/environment.js';

/** What upstream makes of rewards is recorded (`recorded-results.test.ts`). Here is what the records leave open. */

const levels = EffortLevels.parse({
  low_weight: 0.5,
  low_penalty: 2,
  low_ub: 8,
  low_string: 'low',
});
const rowWith = (input: unknown): object => ({ responses_create_params: { input } });

/** An item of `response.output`, and the call behind it that this policy answered; absent: none. */
interface Said {
  item: object;
  call?: PlayedCall;
}

const CALL: PlayedCall = { prompt_ids: [1, 2], token_ids: [3, 4], text: '', read: null };

/** A message with a call, which read it. */
const message = (content: string, call: Partial<PlayedCall> = {}): Said => ({
  item: { type: 'message', content: [{ text: content }] },
  call: { ...CALL, read: { content }, ...call },
});
const calling = (call: Partial<PlayedCall>): Said => message('four', call);
const thought = (text: string): Said => ({ item: { type: 'reasoning', summary: [{ text }] } });
const TOOL_CALL: Said = { item: { type: 'function_call' } };

interface Answering extends Partial<AnswerRules> {
  /** Fields of the answer. */
  more?: object;
  calls?: Conversation['calls'];
}

/** The end of the run whose agent has said so. */
async function ended(
  said: readonly Said[],
  {
    more = {},
    calls = () => Promise.resolve(said.flatMap(({ call }) => call ?? [])),
    ...rules
  }: Answering = {},
): Promise<ProgramEnd> {
  const row = JSON.stringify(rowWith('low'));
  const text = JSON.stringify({
    ...{ reward: 1, response: { output: said.map(({ item }) => item) } },
    ...more,
  });
  const answered = endOf(text, {
    ...{ sample: AgentSample.parse({ agent: 'a', task_index: 0, rollout_index: 0, row }) },
    ...{ attempt: 0, rules: { ...AS_ANSWERED, ...rules }, run_s: 0, subject: '', at: '' },
  });
  assert.ok(answered.settle !== undefined, answered.exit.tail);
  return await answered.settle({ calls });
}

/** That of an answer that is no row. */
async function refusalOf(...given: Parameters<typeof ended>): Promise<string> {
  const { exit, failure, reward, result } = await ended(...given);
  assert.deepEqual([exit.code, reward, failure?.type], [1, null, result?.refused?.type]);
  assert.equal(failure?.retryable, false);
  return result?.refused?.message ?? '';
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

  test('count the last call alone, however long those before it were (NVIDIA-NeMo/RL#4099)', async () => {
    const long = (length: number): Said => calling({ token_ids: Array<number>(length).fill(9) });
    const effort_levels = { low_weight: 1, low_penalty: 1, low_ub: 1000, low_string: 'low' };
    assert.equal((await ended([long(900), long(100)], { effort_levels })).reward, 1.9);
  });

  test('change the reward of the row, which keeps the own one beside it', async () => {
    const { exit, reward, result } = await ended([calling({})], { effort_levels: levels });
    assert.deepEqual([exit.code, reward, result?.reward], [0, 1.375, 1.375]);
    const effort = { low: true, length: 2, length_reward: 0.375, reward: 1.375 };
    assert.deepEqual(result?.shaping, { reward: 1, effort });
  });

  test('that leave a reward which no array holds are a fault, no row', async () => {
    const given = { more: { reward: 9e29 }, effort_levels: levels };
    assert.match(
      await refusalOf([calling({})], given),
      /^expected a reward within its bounds after effort_levels/,
    );
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
  const found = async (said: readonly Said[]): Promise<string[]> => {
    const { result } = await ended(said, { reward_penalties: every });
    const penalties = Object.entries(result?.shaping?.penalties ?? {});
    return penalties.flatMap(([name, has]) => (has ? [name] : []));
  };

  test('find nothing in a sound answer, whose reward stays', async () => {
    assert.deepEqual(await found([calling({})]), []);
    const { reward, result } = await ended([calling({})], { reward_penalties: every });
    assert.deepEqual([reward, result?.shaping?.reward], [1, 1]);
    assert.equal(Object.keys(result?.shaping?.penalties ?? {}).length, 4);
  });

  // One case a line.
  // prettier-ignore
  const cases: [what: string, said: Said[], mistakes: string[]][] = [
    ['a thought that is repeated by a text', [thought(' four\u2003'), { ...calling({}), item: { type: 'message', content: 'four' } }], ['duplicated_reasoning']],
    ['a thought that is repeated later alone', [thought('four'), TOOL_CALL, calling({})], []],
    ['a thought without a text', [{ item: { type: 'reasoning', summary: [] } }, calling({})], []],
    ['an answer that is empty before a tool call', [message(' '), TOOL_CALL], []],
    ['no message at all', [{ ...thought('x'), call: { ...CALL, read: { reasoning: 'x' } } }], ['empty_final_answer']],
    ['a message without parts behind one with text', [calling({}), { item: { type: 'message', content: [] } }], []],
    ['an unwanted token in the middle', [calling({ token_ids: [9, 4] })], ['unwanted_token']],
    ['an unwanted token in the prompt alone', [calling({ prompt_ids: [9] })], []],
    ['an unwanted token of an earlier call', [calling({ token_ids: [9] }), calling({})], ['unwanted_token']],
    ['an open thought that is closed', [calling({ prompt_ids: [1, 7], token_ids: [3, 8] })], []],
    ['an open thought that stays open', [calling({ prompt_ids: [1, 7] })], ['malformed_think_tag']],
    ['a closed thought that is closed again', [calling({ prompt_ids: [7, 8], token_ids: [3, 8] })], ['malformed_think_tag']],
    ['a prompt that closes more than it opens', [calling({ prompt_ids: [8] })], ['malformed_think_tag']],
    ['a prompt that opens two thoughts', [calling({ prompt_ids: [7, 7], token_ids: [3, 8] })], ['malformed_think_tag']],
    ['a tag in the text of an answer', [message('a</think>b')], ['malformed_think_tag']],
    ['a tag in a text whose last item is a tool call', [message('a</think>b', { read: null }), TOOL_CALL], []],
    ['one tag in a thought', [calling({ read: { reasoning: '<think>' } })], []],
    ['a second tag in a thought', [calling({ read: { reasoning: '<think><think>' } })], ['malformed_think_tag']],
    ['a tag that opens a thought and that other tokens spell', [calling({ text: 'a<think>' })], ['malformed_think_tag']],
    ['a tag that closes a thought and that other tokens spell', [calling({ text: 'a</think>b' })], []],
    ['two of these', [calling({ text: 'a</think>b</think>' })], ['malformed_think_tag']],
  ];
  for (const [what, said, mistakes] of cases) {
    test(`find ${mistakes.length === 0 ? 'no mistake' : mistakes.join()} in ${what}`, async () => {
      assert.deepEqual(await found(said), mistakes);
    });
  }

  test('look for the tags that the settings name', async () => {
    const given = { reward_penalties: every, thinking_tags: ['[', ']'] };
    assert.equal((await ended([message('a]b')], given)).reward, 0);
    assert.equal((await ended([message('a</think>b')], given)).reward, 1);
  });

  test('win over effort levels, and the row tells both', async () => {
    const given = { reward_penalties: every, effort_levels: levels };
    const { reward, result } = await ended([message(' ')], given);
    assert.equal(reward, 0);
    assert.equal(result?.shaping?.effort?.reward, 1.375);
  });

  test('leave an answer alone whose model is another: nothing is trained on it', async () => {
    const given = { reward_penalties: every, effort_levels: levels };
    const { reward, result } = await ended([{ item: { type: 'message', content: '' } }], given);
    assert.deepEqual([reward, result?.shaping], [1, undefined]);
  });

  test('and components that do not sum to what they leave are a fault of that row', async () => {
    const given = { more: { reward_components: { a: 1 } }, reward_penalties: every };
    assert.match(
      await refusalOf([message(' ')], given),
      /got reward 0, but its reward_components sum to 1/,
    );
  });
});

describe('the calls of a run', () => {
  const calls = (): Promise<never> => Promise.reject(new Error('its engine is away'));

  test('are read only where they shape its reward', async () => {
    assert.equal((await ended([calling({})], { calls })).reward, 1);
    const reward_penalties = RewardPenalties.parse({});
    await assert.rejects(ended([calling({})], { calls, reward_penalties }), /its engine is away/);
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

  test('may train on answers with mask_sample as on any', async () => {
    const more = { mask_sample: true };
    assert.equal((await ended([calling({})], { more })).result?.untrained, 'mask_sample');
    const any = await ended([calling({})], { more, should_mask_flagged_samples: false });
    assert.equal(any.result?.untrained, undefined);
  });
});

describe('components of a reward', () => {
  const rewardsOf = async (reward: unknown, reward_components: unknown) =>
    (await ended([], { more: { reward, reward_components } })).rewards;
  const refusal = (reward_components: unknown): Promise<string> =>
    refusalOf([], { more: { reward_components } });

  test('may be booleans, as the reward may', async () => {
    assert.deepEqual(await rewardsOf(true, { a: true, b: false }), { a: 1, b: 0 });
    assert.deepEqual(await rewardsOf(1.5, { a: true, b: 0.5 }), { a: 1, b: 0.5 });
  });

  test('are none where there is nothing', async () => {
    for (const nothing of [null, {}, undefined]) assert.deepEqual(await rewardsOf(1, nothing), {});
  });

  test('are refused by name where they are no numbers, rather than lost', async () => {
    assert.equal(
      await refusal({ a: 1, b: null }),
      'reward_components.b: expected a finite number, got null',
    );
    assert.equal(
      await refusal({ a: '1' }),
      'reward_components.a: expected a finite number, got "1"',
    );
    assert.equal(await refusal([1]), 'reward_components: expected an object, got [1]');
  });
});
