import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { encode, IM_END } from '../../simulator/policy/tokenizer.js';
import {
  body,
  call,
  callJson,
  PROMPT,
  readEvents,
  simulator,
  STREAM,
  streamed,
  type Choice,
} from './client.js';
import { BOARD_3X3, taskPrompt } from './puzzle-prompts.js';

/** Recorded traffic of vLLM 0.32.0. */
interface Capture {
  response: {
    headers: Record<string, string>;
    body_raw?: string;
    sse_chunks_ms_text?: [number, string][];
  };
}

function capture(name: string): Capture['response'] {
  const file = new URL(`../captures/vllm-0.32.0/${name}.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as Capture).response;
}

/** Keys in their order, and the types of values; lists and maps of ids, tokens and logprobs by their first item. */
function shape(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shape(value[0])];
  if (typeof value !== 'object' || value === null) return value === null ? null : typeof value;
  return Object.entries(value).map(([key, item]) => [
    key,
    key === 'top_logprobs' ? 'maps' : shape(item),
  ]);
}

function assertSameShape(got: string, wanted: string): void {
  assert.deepEqual(shape(JSON.parse(got)), shape(JSON.parse(wanted)));
}

/** The events of a stream: their shapes, with those in the middle that repeat named once. */
function streamShape(text: string): unknown[] {
  const { events, done } = readEvents(text);
  const shapes = events.map((event) => JSON.stringify(shape(event)));
  return [...shapes.filter((one, i) => one !== shapes[i - 1]), done];
}

const { url } = await simulator({ model: 'tiny', thinking_tokens: 50, tokens_per_second: 150 });

describe('completions', () => {
  test('without a stream have the keys of capture 001 in its order', async () => {
    const fields = { max_tokens: 12, seed: 7 };
    const { text, headers } = await call(`${url}/v1/completions`, { body: body(fields) });
    const recorded = capture('001-completions-ids-nonstream');
    assertSameShape(text, recorded.body_raw ?? '');
    for (const name of ['server', 'content-type', 'vary']) {
      assert.equal(headers.get(name), recorded.headers[name]);
    }
    assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f]{32}$/);
  });

  for (const [name, fields] of [
    ['004-stream-include-usage', { ...STREAM }],
    [
      '005-stream-continuous-usage',
      { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
    ],
    ['006-stream-no-usage', { stream: true }],
    ['007-stream-no-logprobs-no-ids', { stream: true, logprobs: null, return_token_ids: null }],
    ['011-stream-max-tokens-1', { ...STREAM, max_tokens: 1 }],
  ] as const) {
    test(`by stream have the events of capture ${name}`, async () => {
      const request = { max_tokens: 45, seed: 7, ...fields };
      const { text, headers } = await call(`${url}/v1/completions`, { body: body(request) });
      const recorded = capture(name);
      const wanted = (recorded.sse_chunks_ms_text ?? []).map(([, chunk]) => chunk).join('');
      assert.deepEqual(streamShape(text), streamShape(wanted));
      assert.equal(headers.get('content-type'), recorded.headers['content-type']);
      assert.equal(headers.get('transfer-encoding'), 'chunked');
    });
  }

  for (const [name, stream_options] of [
    ['117-generate-stream', { include_usage: true }],
    ['243-generate-stream-continuous-usage', { include_usage: true, continuous_usage_stats: true }],
  ] as const)
    test(`of ids alone have the events of capture ${name}`, async () => {
      const { url } = await simulator({
        model: 'tiny',
        thinking_tokens: 50,
        scale_out: true,
        tokens_per_second: 150,
      });
      const sampling_params = { max_tokens: 45, seed: 7, logprobs: 0 };
      const request = { model: 'tiny', token_ids: PROMPT, sampling_params, stream: true };
      const { text } = await call(`${url}/inference/v1/generate`, {
        body: { ...request, stream_options },
      });
      const recorded = capture(name);
      const wanted = (recorded.sse_chunks_ms_text ?? []).map(([, chunk]) => chunk).join('');
      assert.deepEqual(streamShape(text).slice(0, 2), streamShape(wanted).slice(0, 2));
    });

  test('carry the prompt in the first event only, and ids and logprobs in equal number', async () => {
    const { events, choices, finish_reason } = await streamed(url, { body: { seed: 4 } });
    assert.ok(choices.length > 3);
    assert.deepEqual(choices[0]?.prompt_token_ids, PROMPT);
    assert.ok(choices.slice(1).every((choice) => choice.prompt_token_ids === null));
    for (const { token_ids, logprobs } of choices) {
      assert.equal(token_ids?.length, logprobs?.token_logprobs.length);
      assert.equal(token_ids?.length, logprobs?.tokens.length);
      assert.ok(logprobs?.token_logprobs.every((logprob) => logprob !== null && logprob <= 0));
    }
    assert.ok(choices.slice(0, -1).every((choice) => choice.finish_reason === null));
    assert.equal(finish_reason, 'stop');
    const count = choices.flatMap(({ token_ids }) => token_ids ?? []).length;
    assert.deepEqual(events.at(-1)?.usage, {
      prompt_tokens: PROMPT.length,
      total_tokens: PROMPT.length + count,
      completion_tokens: count,
      prompt_tokens_details: { cached_tokens: 0 },
    });
  });

  test('are the same by stream and without, and again with the same seed', async () => {
    const fields = {
      prompt: taskPrompt(BOARD_3X3),
      seed: 12,
      stop: ['</action>'],
      include_stop_str_in_output: true,
    };
    const stream = await streamed(url, { body: fields });
    assert.deepEqual((await streamed(url, { body: fields })).token_ids, stream.token_ids);
    const whole = await callJson<{ choices: Choice[] }>(`${url}/v1/completions`, {
      body: body(fields),
    });
    const { token_ids, text, stop_reason } = stream;
    assert.deepEqual(
      whole.choices.map((choice) => [choice.token_ids, choice.text, choice.stop_reason]),
      [[token_ids, text, stop_reason]],
    );
    assert.deepEqual(whole.choices[0]?.logprobs?.token_logprobs, stream.logprobs);
  });

  test('without a seed follow the one of the settings', async () => {
    const one = await simulator({ seed: 5 });
    const two = await simulator({ seed: 5 });
    const first = await streamed(one.url);
    assert.deepEqual((await streamed(two.url)).token_ids, first.token_ids);
    const second = await streamed(one.url);
    assert.notDeepEqual(second.token_ids, first.token_ids);
    await callJson(`${one.url}/simulator/settings`, { method: 'PUT', body: { seed: 5 } });
    assert.deepEqual((await streamed(one.url)).token_ids, first.token_ids);
  });

  test('match a stop string that spans chunks, and show none of it unless asked for', async () => {
    const fields = { prompt: taskPrompt(BOARD_3X3), seed: 3, stop: ['</action>'] };
    const without = await streamed(url, { body: fields });
    assert.equal(without.stop_reason, '</action>');
    assert.match(without.text, /<action>[a-z]+$/);
    const withStop = await streamed(url, { body: { ...fields, include_stop_str_in_output: true } });
    assert.equal(withStop.text, `${without.text}</action>`);
    assert.deepEqual(withStop.token_ids, without.token_ids);
    assert.ok(without.choices.length > 4, 'the tag should span chunks');
  });

  test('clamp max_tokens to the context, as vLLM does', async () => {
    const { url } = await simulator({ max_model_len: 40 });
    const prompt = encode('x'.repeat(33));
    const { token_ids, finish_reason } = await streamed(url, {
      body: { prompt, max_tokens: 40, ignore_eos: true },
    });
    assert.equal(token_ids.length, 7);
    assert.equal(finish_reason, 'length');
  });

  test('have 16 tokens where max_tokens is null, and take a text as prompt', async () => {
    const { token_ids, choices } = await streamed(url, {
      body: { prompt: 'é<|im_end|>', max_tokens: null, ignore_eos: true },
    });
    assert.equal(token_ids.length, 16);
    assert.deepEqual(choices[0]?.prompt_token_ids, [0xc3, 0xa9, IM_END]);
  });

  test('are named after X-Request-Id, else after request_id', async () => {
    const { events } = await streamed(url, {
      headers: { 'x-request-id': 'b/0-0.1.w' },
      body: { request_id: 'other' },
    });
    assert.equal(events[0]?.id, 'cmpl-b/0-0.1.w');
    const { headers, text } = await call(`${url}/v1/completions`, {
      body: body({ request_id: 'mine' }),
    });
    assert.match(text, /^\{"id":"cmpl-mine"/);
    assert.notEqual(headers.get('x-request-id'), 'mine');
  });
});

describe('other endpoints', () => {
  test('the model list has the keys of capture 102 and the context length', async () => {
    const { text } = await call(`${url}/v1/models`);
    assertSameShape(text, capture('102-get-v1-models').body_raw ?? '');
    assert.match(text, /"id":"tiny".*"max_model_len":8192/);
  });

  test('the version says that this is a simulator', async () => {
    assert.deepEqual(await callJson(`${url}/version`), { version: '0.32.0+simulator' });
  });

  test('health and ping are 200 without a body', async () => {
    for (const path of ['/health', '/ping']) {
      const { status, text } = await call(url + path);
      assert.deepEqual([status, text], [200, '']);
    }
  });

  test('tokenize takes a text, with names of tokens when asked for', async () => {
    const { text } = await call(`${url}/tokenize`, {
      body: { model: 'tiny', prompt: 'Hi é', return_token_strs: true, add_special_tokens: false },
    });
    assertSameShape(text, capture('091-tokenize-prompt').body_raw ?? '');
    assert.deepEqual(JSON.parse(text), {
      count: 5,
      max_model_len: 8192,
      tokens: [72, 105, 32, 0xc3, 0xa9],
      token_strs: ['H', 'i', 'Ġ', 'Ã', '©'],
    });
    const empty = await callJson<{ tokens: number[]; token_strs: null }>(`${url}/tokenize`, {
      body: { prompt: '' },
    });
    assert.deepEqual([empty.tokens, empty.token_strs], [[], null]);
  });

  test('tokenize renders messages, with a generation prompt unless told otherwise', async () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }];
    const text = '<|im_start|>user\nHi<|im_end|>\n';
    const open = await callJson<{ tokens: number[] }>(`${url}/tokenize`, { body: { messages } });
    assert.deepEqual(open.tokens, encode(`${text}<|im_start|>assistant\n`));
    const closed = await callJson<{ tokens: number[] }>(`${url}/tokenize`, {
      body: { messages, add_generation_prompt: false, chat_template_kwargs: {} },
    });
    assert.deepEqual(closed.tokens, encode(text));
  });

  test('detokenize shows special tokens and leaves out unknown ids', async () => {
    const tokens = [...encode('<|im_start|>é<|im_end|>'), 600];
    assert.deepEqual(await callJson(`${url}/detokenize`, { body: { tokens } }), {
      prompt: '<|im_start|>é<|im_end|>',
    });
    assert.deepEqual(await callJson(`${url}/detokenize`, { body: { tokens: [] } }), { prompt: '' });
  });

  test('metrics are Prometheus text in the names that vLLM has', async () => {
    const { text, headers } = await call(`${url}/metrics`);
    assert.equal(headers.get('content-type'), 'text/plain; version=1.0.0; charset=utf-8');
    assert.match(text, /^vllm:num_requests_running\{engine="0",model_name="tiny"\} 0\.0$/m);
    assert.match(
      text,
      /^vllm:request_success_total\{engine="0",finished_reason="stop",model_name="tiny"\} [1-9]/m,
    );
  });
});
