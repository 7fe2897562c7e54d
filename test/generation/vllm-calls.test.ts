import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { capture } from './captures.js';
import { assertFault, fakeVllm, replay, reply, untilAborted } from './fake-vllm.js';

const healthy = { 'GET /health': reply(200, ''), 'GET /v1/models': replay('102') };
const TOKENIZE = 'POST /tokenize';

describe('describing a service', () => {
  test('gives the models, the default first, their context (an adapter’s is its parent’s) and the version', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      'GET /health': reply(200, ''),
      'GET /v1/models': replay('227'),
      'GET /version': replay('105'),
    });
    assert.deepEqual(await service.describe(untilAborted()), {
      models: [
        { id: 'tiny', max_model_len: 512 },
        { id: 'actor-v1', max_model_len: 512 },
        { id: 'actor-v2', max_model_len: 512 },
      ],
      version: '0.32.0',
    });
    assert.equal(service.replica, base_url);
  });

  test('gives no version where the server tells none', async (t) => {
    for (const answer of [replay('066'), reply(200, 'hello'), reply(200, '{"version":3}')]) {
      const { service } = await fakeVllm(t, { ...healthy, 'GET /version': answer });
      assert.equal((await service.describe(untilAborted())).version, null);
    }
  });

  test('does not parse a list of almost nothing but empty objects', async (t) => {
    const models = JSON.stringify({ data: Array(500_000).fill({}) });
    const { service, base_url } = await fakeVllm(t, {
      ...healthy,
      'GET /v1/models': reply(200, models),
    });
    await assertFault(service.describe(untilAborted()), {
      type: 'ProtocolError',
      message: /GET \/v1\/models: \(input\): expected object, got nothing$/,
      at: base_url,
    });
  });

  test('waits for health: anything but 200 is GenerationUnavailable', async (t) => {
    const { service, base_url, exchanges } = await fakeVllm(t, { 'GET /health': reply(503, '') });
    await assertFault(service.describe(untilAborted()), {
      type: 'GenerationUnavailable',
      message: /GET \/health: expected 200, got 503/,
      at: base_url,
    });
    assert.equal(exchanges.length, 1);
  });

  test('sends the key, and reports a wrong one as GenerationRejected', async (t) => {
    const { service, base_url, exchanges } = await fakeVllm(t, {
      ...healthy,
      'GET /v1/models': replay('213'),
      options: { api_key: 'sekret' },
    });
    await assertFault(service.describe(untilAborted()), {
      type: 'GenerationRejected',
      message: /GET \/v1\/models: 401 Unauthorized$/,
      at: base_url,
    });
    assert.equal(exchanges[1]?.headers.authorization, 'Bearer sekret');
  });

  test('finds a list without models, or no list, a ProtocolError', async (t) => {
    const cases = { '{"data":[]}': /data: expected at least one model/, '{}': /data: expected/ };
    for (const [body, message] of Object.entries(cases)) {
      const { service, base_url } = await fakeVllm(t, {
        ...healthy,
        'GET /v1/models': reply(200, body),
      });
      await assertFault(service.describe(untilAborted()), {
        type: 'ProtocolError',
        message,
        at: base_url,
      });
    }
  });
});

describe('the tokeniser', () => {
  test('renders a conversation with the server’s template', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [TOKENIZE]: replay('093') });
    const chat = {
      model: 'tiny',
      messages: [{ role: 'user', content: 'Hello world' }],
      add_generation_prompt: true,
      chat_template_kwargs: { enable_thinking: false },
    };
    const ids = await service.renderChat(chat, untilAborted());
    assert.equal(ids.length, 36);
    assert.deepEqual(ids, (JSON.parse(capture('093').raw) as { tokens: number[] }).tokens);
    assert.deepEqual(exchanges[0]?.body, chat);
  });

  test('encodes a text', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [TOKENIZE]: replay('091') });
    const input = { model: 'tiny', text: 'Hello world', add_special_tokens: false };
    const ids = await service.tokenize(input, untilAborted());
    assert.deepEqual(ids, [42, 71, 78, 365, 320, 274, 482]);
    assert.deepEqual(exchanges[0]?.body, {
      model: 'tiny',
      prompt: 'Hello world',
      add_special_tokens: false,
    });
  });

  test('decodes ids, none too', async (t) => {
    for (const [number, text] of [
      ['098', /^<\|im_start\|>system\nBe brief/],
      ['101', /^$/],
    ] as const) {
      const { service, exchanges } = await fakeVllm(t, { 'POST /detokenize': replay(number) });
      const input = { model: 'tiny', token_ids: capture(number).prompt };
      assert.match(await service.detokenize(input, untilAborted()), text);
      assert.deepEqual(exchanges[0]?.body, { model: 'tiny', tokens: input.token_ids });
    }
  });

  const input = { model: 'tiny', text: 'hi', add_special_tokens: false };

  test('that refuses, fails or talks nonsense is the fault that fits', async (t) => {
    const cases = [
      [reply(500, '{"error":{"message":"boom"}}'), 'GenerationUnavailable', /tokenize: 500 boom/],
      [replay('049'), 'GenerationRejected', /tokenize: 404 The model/],
      [reply(200, 'hello'), 'ProtocolError', /tokenize: .*expected object, got nothing/],
      [reply(200, '{"tokens":[-1]}'), 'ProtocolError', /tokens\.0: .*got -1/],
      [reply(200, '{"count":0}'), 'ProtocolError', /tokens: expected array, got nothing/],
    ] as const;
    for (const [answer, type, message] of cases) {
      const { service, base_url } = await fakeVllm(t, { [TOKENIZE]: answer });
      await assertFault(service.tokenize(input, untilAborted()), { type, message, at: base_url });
    }
  });

  test('that does not answer, or stops within its answer, is GenerationUnavailable after the limit', async (t) => {
    const { service, base_url, exchanges } = await fakeVllm(t, {
      [TOKENIZE]: () => undefined,
      'POST /detokenize': (exchange) => {
        exchange.response.write('{"tok');
      },
      options: { call_timeout_ms: 80 },
    });
    const late = { type: 'GenerationUnavailable', at: base_url } as const;
    const message = /no answer within 80 ms/;
    await assertFault(service.tokenize(input, untilAborted()), { ...late, message });
    await assertFault(service.detokenize({ model: 'tiny', token_ids: [1] }, untilAborted()), {
      ...late,
      message,
    });
    for (const exchange of exchanges) await exchange.closed;
  });

  test('is left at once when the signal aborts, with its reason', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [TOKENIZE]: () => undefined });
    const controller = new AbortController();
    const reason = new Error('stopped');
    const encoding = service.tokenize(input, controller.signal);
    await sleep(30);
    controller.abort(reason);
    await assert.rejects(encoding, (error) => error === reason);
    await exchanges[0]?.closed;
  });
});

test('the logprobs of a prompt are those of capture 061, for all its ids but the first', async (t) => {
  const { service, exchanges } = await fakeVllm(t, { 'POST /v1/completions': replay('061') });
  const { prompt } = capture('061');
  const told = await service.promptLogprobs({ model: 'tiny', prompt_ids: prompt }, untilAborted());
  assert.deepEqual(told.slice(0, 2), [-5.382998943328857, -9.066993713378906]);
  assert.equal(told.length, prompt.length - 1);
  const body = { model: 'tiny', prompt, max_tokens: 1, temperature: 0, prompt_logprobs: 0 };
  assert.deepEqual(exchanges[0]?.body, body);
});
