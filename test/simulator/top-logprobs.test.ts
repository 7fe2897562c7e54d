import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { body, callJson, simulator, type Choice } from './client.js';

/** One token by temperature: the likeliest ids and the sampled one. */
async function topsOf(url: string, fields: object) {
  const sent = { ...body(), max_tokens: 1, logprobs: 20, return_tokens_as_token_ids: true };
  const { choices } = await callJson<{ choices: Choice[] }>(`${url}/v1/completions`, {
    body: { ...sent, seed: 3, ...fields },
  });
  const { tokens, token_logprobs, top_logprobs } = choices[0]?.logprobs ?? assert.fail();
  return {
    name: tokens[0]!,
    own: token_logprobs[0]!,
    top: top_logprobs[0] as Record<string, number>,
  };
}

describe('the likeliest tokens', () => {
  test('are the whole distribution of the next one, by id, and the sampled one has its own logprob', async () => {
    const { url } = await simulator({});
    const { name, own, top } = await topsOf(url, { temperature: 0.5 });
    assert.match(name, /^token_id:\d+$/);
    assert.equal(top[name], own);
    const sum = Object.values(top).reduce((total, logprob) => total + Math.exp(logprob), 0);
    assert.ok(Math.abs(sum - 1) < 1e-6, `they sum to ${sum}`);
  });

  test('are as many as were asked for, and the sampled one', async () => {
    const { url } = await simulator({});
    for (let seed = 0; seed < 20; seed++) {
      const { top } = await topsOf(url, { logprobs: 3, seed });
      assert.ok([3, 4].includes(Object.keys(top).length), JSON.stringify(top));
    }
  });

  test('follow temperature and filters where logprobs are processed', async () => {
    const { url } = await simulator({ logprobs_mode: 'processed' });
    const { top } = await topsOf(url, {});
    assert.notDeepEqual((await topsOf(url, { temperature: 0.25 })).top, top);
    assert.equal((await topsOf(url, { top_k: 1 })).own, 0);
  });

  test('are those of temperature 1 without filters where logprobs are raw', async () => {
    const { url } = await simulator({ logprobs_mode: 'raw' });
    const { top } = await topsOf(url, {});
    for (const fields of [{ temperature: 0.25 }, { top_k: 1 }, { top_p: 0.5, min_p: 0.1 }])
      assert.deepEqual((await topsOf(url, fields)).top, top);
  });
});
