import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { body, call, requestLog, simulator } from './client.js';

const { url } = await simulator({ model: 'tiny', max_model_len: 512 });

const refused = (message: string, param: string | null = null) => ({
  error: { message, type: 'BadRequestError', param, code: 400 },
});
const fives = (count: number): number[] => Array.from({ length: count }, () => 5);

/** Bodies recorded from vLLM 0.32.0 with a context of 512 tokens; the number is the capture's. */
const RECORDED: [name: string, fields: Record<string, unknown>, expected: unknown][] = [
  [
    '035 prompt too long',
    { prompt: fives(600), max_tokens: 12 },
    refused(
      "This model's maximum context length is 512 tokens. However, your prompt contains 600 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=600)",
      'input_tokens',
    ),
  ],
  [
    '037 prompt that fills the context',
    { prompt: fives(512), max_tokens: 1 },
    refused('max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)', 'max_tokens'),
  ],
  [
    '039 max_tokens above the context',
    { max_tokens: 600 },
    refused(
      'max_tokens=600 cannot be greater than max_model_len=512. Please request fewer output tokens. (parameter=max_tokens, value=600)',
      'max_tokens',
    ),
  ],
  ['042 id out of vocabulary', { prompt: [5, 600] }, refused('Token id 600 is out of vocabulary')],
  [
    '043 id far out of vocabulary',
    { prompt: [5, 1e12] },
    refused('Token id 1000000000000 is out of vocabulary'),
  ],
  ['047 no ids', { prompt: [] }, refused('You must pass at least one prompt')],
  [
    '053 max_tokens 0',
    { max_tokens: 0 },
    refused('max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)', 'max_tokens'),
  ],
  [
    '055 too many logprobs',
    { logprobs: 21 },
    refused(
      'Requested sample logprobs of 21, which is greater than max allowed: 20 (parameter=logprobs, value=21)',
      'logprobs',
    ),
  ],
  ['057 empty stop string', { stop: [''] }, refused('stop cannot contain an empty string.')],
];

/** Recorded refusals whose words are the simulator's own: the status and the field are vLLM's. */
const REFUSED: [name: string, fields: Record<string, unknown>, param: string][] = [
  ['044 negative id', { prompt: [5, -1] }, 'body.prompt.1'],
  ['045 fractional id', { prompt: [5, 1.5] }, 'body.prompt'],
  ['046 prompt null', { prompt: null }, 'prompt'],
  ['048 empty text', { prompt: '' }, 'prompt'],
  ['051 wrong type', { max_tokens: 'many' }, 'body.max_tokens'],
  ['052 negative temperature', { temperature: -1 }, 'temperature'],
  ['054 top_p 0', { top_p: 0 }, 'top_p'],
  ['056 stop token that is text', { stop_token_ids: ['a'] }, 'body.stop_token_ids.0'],
  ['060 prompt logprobs by stream', { prompt_logprobs: 1, stream: true }, 'prompt_logprobs'],
  ['063 seed too large', { seed: 2 ** 70 }, 'body.seed'],
  ['071 empty cache salt', { cache_salt: '' }, 'body.cache_salt'],
];

describe('a refused completion answers as vLLM does', () => {
  for (const [name, fields, expected] of RECORDED) {
    test(name, async () => {
      const { status, text } = await call(`${url}/v1/completions`, { body: body(fields) });
      assert.deepEqual(JSON.parse(text), expected);
      assert.equal(status, 400);
      assert.equal(text, JSON.stringify(expected), 'the keys in their order');
    });
  }

  for (const [name, fields, param] of REFUSED) {
    test(name, async () => {
      const { status, text } = await call(`${url}/v1/completions`, { body: body(fields) });
      assert.equal(status, 400);
      assert.equal((JSON.parse(text) as { error: { param: string } }).error.param, param);
    });
  }

  test('036 by stream it is an HTTP error too', async () => {
    const fields = { prompt: fives(600), stream: true, stream_options: { include_usage: true } };
    const { status, headers } = await call(`${url}/v1/completions`, { body: body(fields) });
    assert.equal(status, 400);
    assert.equal(headers.get('content-type'), 'application/json');
  });

  test('049 unknown model', async () => {
    const { status, text } = await call(`${url}/v1/completions`, { body: body({ model: 'nope' }) });
    assert.equal(status, 404);
    assert.equal(
      text,
      '{"error":{"message":"The model `nope` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}',
    );
  });

  test('050 malformed JSON', async () => {
    const { status, text } = await call(`${url}/v1/completions`, {
      body: '{"model":"tiny","prompt":[1,2',
    });
    assert.equal(status, 400);
    assert.match(text, /expected JSON/);
  });

  test('065 another content type', async () => {
    const { status, text } = await call(`${url}/v1/completions`, {
      body: body(),
      headers: { 'content-type': 'text/plain' },
    });
    assert.equal(status, 400);
    assert.match(text, /expected content type application\/json, got text\/plain/);
  });

  test('what the simulator does not play is refused by name, its neutral value is not', async () => {
    for (const fields of [
      { n: 2 },
      { echo: true },
      { repetition_penalty: 1.1 },
      { logit_bias: { 5: 1 } },
      { truncate_prompt_tokens: 3 },
      { prompt: ['a', 'b'] },
    ]) {
      const { status, text } = await call(`${url}/v1/completions`, { body: body(fields) });
      assert.equal(status, 400, text);
      assert.match(
        text,
        new RegExp(`The simulator does not implement ${Object.keys(fields)[0] ?? ''}`),
      );
    }
    const neutral = {
      n: 1,
      echo: false,
      logit_bias: {},
      presence_penalty: 0,
      response_format: null,
    };
    assert.equal((await call(`${url}/v1/completions`, { body: body(neutral) })).status, 200);
  });

  test('058 an unknown field is ignored', async () => {
    const fields = { retrun_token_ids: true, no_such_field: { a: 1 } };
    assert.equal((await call(`${url}/v1/completions`, { body: body(fields) })).status, 200);
  });

  test('fields that may not be null are refused as null', async () => {
    const { status, text } = await call(`${url}/v1/completions`, {
      body: body({ min_tokens: null }),
    });
    assert.equal(status, 400);
    assert.match(text, /body\.min_tokens: .*got null/);
  });

  test('it is in the request log as rejected', async () => {
    await call(`${url}/v1/completions`, {
      body: body({ max_tokens: 0 }),
      headers: { 'x-request-id': 'b/9-9.2.w' },
    });
    const entry = (await requestLog(url)).at(-1);
    assert.equal(entry?.rollout_id, 'b/9-9');
    assert.equal(entry.outcome, 'rejected');
  });
});

describe('other endpoints refuse as vLLM does', () => {
  test('066 and 067: unknown routes and methods', async () => {
    const missing = await call(`${url}/v1/nope`, { body: {} });
    assert.deepEqual([missing.status, missing.text], [404, '{"detail":"Not Found"}']);
    const method = await call(`${url}/v1/completions`);
    assert.deepEqual([method.status, method.text], [405, '{"detail":"Method Not Allowed"}']);
    assert.equal(method.headers.get('allow'), 'POST');
  });

  test('100: a negative id cannot be detokenized', async () => {
    const { status, text } = await call(`${url}/detokenize`, { body: { tokens: [-1] } });
    assert.equal(status, 400);
    assert.match(text, /body\.tokens\.0/);
  });

  test('tokenize refuses an unknown model, no prompt, and templates that it does not play', async () => {
    assert.equal(
      (await call(`${url}/tokenize`, { body: { model: 'nope', prompt: 'a' } })).status,
      404,
    );
    assert.match(
      (await call(`${url}/tokenize`, { body: {} })).text,
      /body\.prompt: expected a prompt or messages/,
    );
    const messages = [{ role: 'user', content: 'Hi' }];
    const { status, text } = await call(`${url}/tokenize`, {
      body: { messages, chat_template: 'x' },
    });
    assert.equal(status, 400);
    assert.match(text, /does not implement chat_template/);
  });
});
