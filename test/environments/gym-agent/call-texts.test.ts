import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { AS_ANSWERED } from '../../../src/environments/gym-agent/answer.js';
import { createCallTexts, type CallTexts } from '../../../src/environments/gym-agent/call-texts.js';
import { RewardPenalties } from '../../../src/model/agent/shaping-settings.js';
import { answer, startServer, type Handler } from '../loopback-server.js';

const { signal } = new AbortController();
const penalties = (more: object = {}): RewardPenalties =>
  RewardPenalties.parse({ penalize_malformed_think_tag: true, ...more });
const call = (prompt: number[], generated: number[]): object => ({
  prompt_token_ids: prompt,
  generation_token_ids: generated,
  generation_log_probs: generated.map(() => -1),
});
const value = { response: { output: [call([1], [2, 3]), { type: 'x' }, call([1, 2, 3], [4])] } };

/** A tokenizer of characters; `<think>` and `</think>` are one token each. */
const tokenizer: Handler = (request, response) => {
  const { prompt, tokens } = request.body as { prompt?: string; tokens?: number[] };
  const ids = { '<think>': [12], '</think>': [13] }[prompt ?? ''] ?? [1, 2];
  const said =
    request.url === '/tokenize' ? { tokens: ids } : { prompt: `text of ${tokens?.join()}` };
  answer(200, said)(request, response);
};

async function asking(
  handler: Handler,
  { reward_penalties = penalties(), ...rules }: Partial<typeof AS_ANSWERED> = {},
): Promise<CallTexts & { paths: () => string[] }> {
  const { url, received } = await startServer(handler);
  const texts = createCallTexts(
    { ...AS_ANSWERED, ...rules, reward_penalties },
    { url, waits_ms: [1, 1] },
  );
  after(() => texts.close());
  return { ...texts, paths: () => received.map(({ url: path = '' }) => path) };
}

describe("the tokenizer of an agent's policy", () => {
  test('gives the text of each call, and the ids of the tags once', async () => {
    const { of, paths } = await asking(tokenizer);
    const { rules, texts } = await of(value, signal);
    assert.deepEqual(texts, ['text of 2,3', 'text of 4']);
    const { think_open, think_close } = rules.reward_penalties?.token_ids ?? {};
    assert.deepEqual([think_open, think_close], [12, 13]);
    await of(value, signal);
    assert.deepEqual(paths(), ['/tokenize', '/tokenize', ...Array<string>(4).fill('/detokenize')]);
  });

  test('has no ids for tags of several tokens, and given ones stay', async () => {
    const several = await asking(tokenizer, { thinking_tags: ['<a>', '</a>'] });
    assert.equal(
      (await several.of(value, signal)).rules.reward_penalties?.token_ids.think_open,
      null,
    );
    const token_ids = { think_open: 7, think_close: 8 };
    const given = await asking(tokenizer, { reward_penalties: penalties({ token_ids }) });
    assert.equal((await given.of(value, signal)).rules.reward_penalties?.token_ids.think_open, 7);
  });

  test('is asked again where it fails, and its failure is the last word', async () => {
    let left = 2;
    const { of } = await asking((request, response) => {
      const handler = left-- > 0 ? answer(503, 'busy') : tokenizer;
      handler(request, response);
    });
    assert.equal((await of(value, signal)).texts?.length, 2);
    const never = await asking(answer(503, 'busy'));
    await assert.rejects(never.of(value, signal), /POST .*\/tokenize answered 503/);
    assert.equal(never.paths().length, 3);
    const wrong = await asking(answer(200, { tokens: 'x' }));
    await assert.rejects(wrong.of(value, signal), /\/tokenize answered: tokens: expected array/);
  });

  test('is not asked where no penalty needs it', async () => {
    const { of, paths } = await asking(tokenizer, { reward_penalties: null });
    assert.deepEqual(await of(value, signal), { rules: AS_ANSWERED, texts: null });
    assert.deepEqual(paths(), []);
  });
});
