import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GenerationSettings } from '../../src/model/generation-settings.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { sendJson } from '../servers/json-server.js';
import { fakeSglang, PLAIN } from './fake-sglang.js';
import type { Exchange } from './fake-vllm.js';
import { assertFault, collector, reply, untilAborted } from './fake-vllm.js';

describe('what SGLang cannot do', () => {
  const cases: [field: string, given: Partial<Omit<GenerationSettings, 'model'>>][] = [
    ['bad_words', { bad_words: ['no'] }],
    ['repetition_penalty', { repetition_penalty: 3 }],
    ['stop_token_ids', { ignore_eos: true, stop_token_ids: [3] }],
    ['top_k', { top_p: 0.9 }],
    ['top_k', { min_p: 0.1 }],
    ['top_k', { top_k: 5000 }],
    ['top_logprobs', { top_k: 40, top_logprobs: 2 }],
    ['structured_outputs', { structured_outputs: { regex: 'a' } }],
  ];
  for (const [field, given] of cases)
    test(`is refused at planning and in a call: ${field} of ${JSON.stringify(given)}`, async (t) => {
      const { service, sent } = await fakeSglang(t);
      const signal = untilAborted();
      const { refused } = (await service.limits?.({ ...GENERATION, ...given }, signal)) ?? {};
      assert.deepEqual(
        refused?.map((limit) => limit.field),
        [field],
      );
      const message = new RegExp(`: ${field}: `);
      const request = { ...PLAIN, ...given };
      await assertFault(service.generate(request, { signal, ...collector() }), {
        type: 'GenerationRejected',
        message,
        at: service.replica,
      });
      assert.deepEqual(sent, []);
    });

  test('is nothing of what it can: filters without logprobs, greedy ones, structures with a grammar', async (t) => {
    const settings = { grammar_backend: 'xgrammar' };
    const { service } = await fakeSglang(t, { settings });
    for (const given of [
      { top_p: 0.9, include_logprobs: false },
      { top_p: 0.9, greedy: true },
      { top_p: 0.9, top_k: 40 },
      { structured_outputs: { regex: 'a' } },
    ]) {
      const found = await service.limits?.({ ...GENERATION, ...given }, untilAborted());
      assert.deepEqual(found?.refused, []);
    }
  });

  test('is noted, where rows are the same but for it: seeds, and streams that repeat themselves', async (t) => {
    const settings = { incremental_streaming_output: false };
    const { service } = await fakeSglang(t, { settings });
    const found = await service.limits?.({ ...GENERATION, seed: 1 }, untilAborted());
    assert.match(found?.notes.join() ?? '', /^generation\.seed: .*,each event of its streams/);
  });
});

describe('an SGLang is asked', () => {
  test('for the text of special tokens, too, and renders a conversation as it stands', async (t) => {
    const bodies: unknown[] = [];
    const answering =
      (body: object) =>
      (exchange: Exchange): void => {
        bodies.push(exchange.body);
        sendJson(exchange.response, { body });
      };
    const { service } = await fakeSglang(t, {
      more: {
        'POST /detokenize': answering({ text: '<|im_end|>' }),
        'POST /tokenize': answering({ tokens: [1, 2], count: 2, max_model_len: 2048 }),
      },
    });
    const signal = untilAborted();
    assert.equal(await service.detokenize({ model: 'tiny', token_ids: [2] }, signal), '<|im_end|>');
    const chat = {
      model: 'tiny',
      messages: [{ role: 'user', content: 'hi' }],
      add_generation_prompt: false,
      chat_template_kwargs: {},
    };
    assert.deepEqual(await service.renderChat(chat, signal), [1, 2]);
    assert.deepEqual(bodies, [{ model: 'tiny', tokens: [2], skip_special_tokens: false }, chat]);
  });

  test('for the logprobs of a prompt, each named by its id', async (t) => {
    const scored = (ids: readonly number[]) =>
      reply(
        200,
        JSON.stringify({
          meta_info: {
            input_token_logprobs: ids.map((id, i) => [i === 0 ? null : -i, id, null]),
          },
        }),
      );
    const prompt = { model: 'tiny', prompt_ids: [4, 5, 6] };
    const signal = untilAborted();
    const good = await fakeSglang(t, { generate: scored([4, 5, 6]) });
    assert.deepEqual(await good.service.promptLogprobs(prompt, signal), [-1, -2]);
    const { service } = await fakeSglang(t, { generate: scored([4, 6, 5]) });
    await assertFault(service.promptLogprobs(prompt, signal), {
      type: 'ProtocolError',
      message: /input_token_logprobs\.1: expected the logprob of id 5, got -1 of id 6$/,
      at: service.replica,
    });
  });

  test('whether it is paused without being made to generate', async (t) => {
    for (const [status, expected] of [
      [200, false],
      [503, true],
      [404, false],
    ] as const) {
      const { service } = await fakeSglang(t, { more: { 'GET /ready': reply(status, '') } });
      assert.equal(await service.isPaused(), expected);
    }
  });
});
