import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { roomIn } from '../../src/generation/wire/generate.js';
import { capture } from './captures.js';
import {
  assertFault,
  collector,
  fakeVllm,
  replay,
  reply,
  REQUEST,
  streaming,
  untilAborted,
  type Exchange,
} from './fake-vllm.js';

const COMPLETIONS = 'POST /v1/completions';
const MODELS = 'GET /v1/models';

const listOf = (max_model_len: number | null) =>
  reply(200, JSON.stringify({ data: [{ id: 'tiny', max_model_len }] }));
const nested = (message: string): string =>
  JSON.stringify({ error: { message, type: 'BadRequestError', param: null, code: 400 } });
const flat = (message: string): string =>
  JSON.stringify({ object: 'error', message, type: 'BadRequestError', param: null, code: 400 });

/** What a 400 becomes: an empty generation, a fault, or the request sent again with so many tokens. */
type Outcome = 'full' | 'fault' | { sent_again: number };

interface Refused {
  by: string;
  body: string;
  /** Counts of the request. */
  prompt?: number;
  max_tokens?: number;
  /** In the server's list of models; default none. */
  listed?: number | null;
  /** How the refusal comes: with this status (default 400), or as the first event of a stream. */
  as?: number | 'an event';
  becomes: Outcome;
}

const VLLM_0_32 = (limit: number, prompt: string) =>
  `This model's maximum context length is ${limit} tokens. However, your prompt contains ${prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`;
type Counts = [limit: number, prompt: number, completion: number];
const OPENAI = (...[limit, prompt, completion]: Counts) =>
  `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + completion} tokens (${prompt} in the messages, ${completion} in the completion). Please reduce the length of the messages or completion.`;
const SGLANG = (...[limit, prompt, completion]: Counts) =>
  `Requested token count exceeds the model's maximum context length of ${limit} tokens. You requested a total of ${prompt + completion} tokens: ${prompt} tokens from the input messages and ${completion} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`;

// One case a line.
// prettier-ignore
const TABLE: Refused[] = [
  // vLLM.
  { by: 'vLLM 0.32, capture 035', body: capture('035').raw, prompt: 600, listed: 512, becomes: 'full' },
  { by: 'vLLM 0.32 in a stream, capture 036', body: capture('036').raw, prompt: 600, listed: 512, becomes: 'full' },
  { by: 'vLLM 0.32, one token too many', body: nested(VLLM_0_32(512, 'at least 513')), prompt: 513, listed: 512, becomes: 'full' },
  { by: 'vLLM 0.32, capture 039', body: capture('039').raw, prompt: 7, max_tokens: 600, listed: 512, becomes: { sent_again: 505 } },
  { by: 'vLLM with output reserved', body: nested("This model's maximum context length is 512 tokens. However, you requested 13 output tokens and your prompt contains 500 input tokens, for a total of 513 tokens. Please reduce the length of the input prompt or the number of requested output tokens."), prompt: 500, max_tokens: 13, listed: 512, becomes: { sent_again: 12 } },
  { by: 'vLLM, max_model_len by its other name', body: nested('max_completion_tokens=600 cannot be greater than max_model_len=max_total_tokens=512. Please request fewer output tokens.'), prompt: 7, max_tokens: 600, listed: 512, becomes: { sent_again: 505 } },
  // Not as a 400.
  { by: 'a gateway that says 413 in vLLM’s words', as: 413, body: nested(VLLM_0_32(512, '600')), prompt: 600, listed: 512, becomes: 'full' },
  { by: 'a gateway that says 413 in its own words', as: 413, body: '<html>Request Entity Too Large</html>', prompt: 600, listed: 512, becomes: 'full' },
  { by: 'a proxy that says 413 of a request that fits', as: 413, body: '<html>Request Entity Too Large</html>', prompt: 100, listed: 512, becomes: 'fault' },
  { by: 'vLLM inside the stream', as: 'an event', body: nested(VLLM_0_32(512, '600')), prompt: 600, listed: 512, becomes: 'full' },
  { by: 'vLLM inside the stream, flat, with room left', as: 'an event', body: flat(OPENAI(8192, 8000, 512)), prompt: 8000, max_tokens: 512, listed: 8192, becomes: { sent_again: 192 } },
  { by: 'another refusal inside the stream', as: 'an event', body: nested('Out of range float values are not JSON compliant'), prompt: 600, becomes: 'fault' },
  { by: 'vLLM, “requested 8512 tokens” with 192 of room left', body: flat(OPENAI(8192, 8000, 512)), prompt: 8000, max_tokens: 512, listed: 8192, becomes: { sent_again: 192 } },
  { by: 'vLLM 0.10', body: nested("This model's maximum context length is 512 tokens. However, your request has 600 input tokens. Please reduce the length of the input messages."), prompt: 600, listed: 512, becomes: 'full' },
  { by: 'vLLM 0.10, max_tokens', body: nested("'max_tokens' or 'max_completion_tokens' is too large: 600. This model's maximum context length is 512 tokens and your request has 7 input tokens (600 > 512 - 7). None"), prompt: 7, max_tokens: 600, listed: 512, becomes: { sent_again: 505 } },
  // Where nothing in the words tells.
  { by: 'vLLM 0.32, capture 037', body: capture('037').raw, prompt: 512, listed: 512, max_tokens: 1, becomes: 'full' },
  { by: 'vLLM 0.32, capture 037, of a server that lists no limit', body: capture('037').raw, prompt: 512, max_tokens: 1, becomes: 'fault' },
  // vLLM's words about a request that fits.
  { by: 'a router that renders the prompt again', body: nested(VLLM_0_32(512, '600')), prompt: 7, listed: 512, becomes: 'fault' },
  { by: 'a limit that the request is within', body: nested(VLLM_0_32(512, '7')), prompt: 7, listed: 512, becomes: 'fault' },
  { by: 'vLLM 0.32, capture 053, a max_tokens of 0', body: capture('053').raw, listed: 512, becomes: 'fault' },
  // Other engines: by their list of models.
  { by: 'SGLang, a full prompt', body: flat('Input length (600 tokens) exceeds the maximum allowed length (506 tokens). Use a shorter input or enable --allow-auto-truncate.'), prompt: 600, listed: 512, becomes: 'full' },
  { by: 'SGLang, too many tokens', body: flat(SGLANG(8192, 8000, 512)), prompt: 8000, max_tokens: 512, listed: 8192, becomes: { sent_again: 192 } },
  { by: 'SGLang that lists no limit', body: flat(SGLANG(8192, 8000, 512)), prompt: 8000, max_tokens: 512, becomes: 'fault' },
  { by: 'TGI', body: '{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1244 `inputs` tokens and 1000 `max_new_tokens`","error_type":"validation"}', prompt: 1244, max_tokens: 1000, becomes: 'fault' },
  { by: 'llama-server', body: '{"error":{"code":400,"message":"request (600 tokens) exceeds the available context size (512 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":600,"n_ctx":512}}', prompt: 600, becomes: 'fault' },
  { by: 'TensorRT-LLM', body: flat('The sum of prompt length (600.0), query length (0) should not exceed max_num_tokens (512)'), prompt: 600, becomes: 'fault' },
  { by: 'TensorRT-LLM that lists its limit', body: flat('The sum of prompt length (600.0), query length (0) should not exceed max_num_tokens (512)'), prompt: 600, listed: 512, becomes: 'full' },
  { by: 'llama-cpp-python', body: '{"error":{"message":"Requested tokens (817) exceed context window of 512","type":"internal_server_error","param":null,"code":null}}', prompt: 817, becomes: 'fault' },
  // Services, which list no limit.
  { by: 'Together, which counts one token more', body: JSON.stringify({ error: { message: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens and 30 `max_new_tokens`' } }), prompt: 2018, max_tokens: 30, becomes: 'fault' },
  { by: 'Fireworks, a full prompt', body: JSON.stringify({ error: { object: 'error', type: 'invalid_request_error', code: 'invalid_request_error', message: 'The prompt is too long: 33001, model maximum context length: 32767' } }), prompt: 33001, becomes: 'fault' },
  { by: 'Fireworks, max_tokens without a stream', body: JSON.stringify({ error: { message: 'Requests with max_tokens > 4096 must have stream=true', param: 'max_tokens', code: 'BAD_REQUEST', type: 'error' } }), max_tokens: 8192, becomes: 'fault' },
  // Gateways, whose words prove nothing.
  { by: 'a gateway’s quota', body: nested('Budget exceeded: max_tokens is limited to 8 for this key'), listed: 512, becomes: 'fault' },
  { by: 'LiteLLM', body: nested("litellm.BadRequestError: OpenAIException - Unsupported parameter: 'max_tokens' is not supported with this model."), listed: 512, becomes: 'fault' },
  { by: 'LiteLLM that quotes an engine', body: nested(`litellm.ContextWindowExceededError: ${VLLM_0_32(512, '7')}`), listed: 512, becomes: 'fault' },
  { by: 'a tokens-per-minute limit', body: nested('input_tokens per minute exceeded for the context length tier'), listed: 512, becomes: 'fault' },
  { by: 'FastAPI that echoes the body', body: '{"detail":[{"type":"missing","loc":["body","user"],"msg":"Field required","input":{"model":"tiny","prompt":[42],"max_tokens":12}}]}', listed: 512, becomes: 'fault' },
  { by: 'a proxy’s page', body: '<html>400 Bad Request: max_tokens, context length, input_tokens</html>', listed: 512, becomes: 'fault' },
];

describe('a refusal', () => {
  for (const { by, body, as = 400, prompt = 7, max_tokens = 12, listed = null, becomes } of TABLE) {
    const what = typeof becomes === 'string' ? becomes : `sent again with ${becomes.sent_again}`;
    test(`by ${by}, for ${prompt} and ${max_tokens} tokens, becomes: ${what}`, async (t) => {
      const prompt_ids = Array.from({ length: prompt }, () => 5);
      let left = 1;
      const { service, base_url, exchanges } = await fakeVllm(t, {
        [COMPLETIONS]: (exchange) => {
          left -= 1;
          const refusing =
            as === 'an event' ? streaming(`data: ${body}\n\ndata: [DONE]\n\n`) : reply(as, body);
          return (left < 0 ? answering : refusing)(exchange);
        },
        [MODELS]: listOf(listed),
      });
      const { got, onDelta } = collector();
      const request = { ...REQUEST, prompt_ids, max_tokens, stop_strings: [] };
      const generation = service.generate(request, { signal: untilAborted(), onDelta });
      const sent = () => exchanges.filter(({ route }) => route === COMPLETIONS).map(maxTokensOf);
      if (becomes === 'fault') {
        await assertFault(generation, {
          type: 'GenerationRejected',
          message: new RegExp(` ${as === 'an event' ? 400 : as} `),
          at: base_url,
        });
        assert.deepEqual(sent(), [max_tokens]);
        return;
      }
      const { finish_reason } = await generation;
      assert.equal(finish_reason, 'length');
      if (becomes === 'full') {
        assert.deepEqual([got.token_ids, sent()], [[], [max_tokens]]);
        return;
      }
      assert.deepEqual(got.token_ids, [11]);
      assert.deepEqual(sent(), [max_tokens, becomes.sent_again]);
    });
  }

  test('of the second request is a fault, whatever it says: it is not sent a third time', async (t) => {
    const body = nested(OPENAI(8192, 8000, 512));
    const { service, base_url, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: reply(400, body),
      [MODELS]: listOf(8192),
    });
    const prompt_ids = Array.from({ length: 8000 }, () => 5);
    const request = { ...REQUEST, prompt_ids, max_tokens: 512 };
    const generation = service.generate(request, { signal: untilAborted(), ...collector() });
    await assertFault(generation, {
      type: 'GenerationRejected',
      message: /400 This model's maximum/,
      at: base_url,
    });
    const sent = exchanges.filter(({ route }) => route === COMPLETIONS);
    assert.deepEqual(sent.map(maxTokensOf), [512, 192]);
  });

  test('is asked about again where the list of models is away for a moment', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      [COMPLETIONS]: replay('037'),
      [MODELS]: reply(503, ''),
    });
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), ...collector() }), {
      type: 'GenerationUnavailable',
      message: /GET \/v1\/models: 503/,
      at: base_url,
    });
  });

  test('for an adapter is measured by its parent’s limit (capture 227)', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: replay('037'),
      [MODELS]: replay('227'),
    });
    const prompt_ids = Array.from({ length: 512 }, () => 5);
    const request = { ...REQUEST, model: 'actor-v1', prompt_ids };
    const end = await service.generate(request, { signal: untilAborted(), ...collector() });
    assert.equal(end.finish_reason, 'length');
  });
});

const maxTokensOf = ({ body }: Exchange): unknown => (body as { max_tokens: number }).max_tokens;

/** One token, then the limit. */
function answering({ body, response }: Exchange): void {
  const { prompt } = body as { prompt: number[] };
  const choice = {
    index: 0,
    text: 'x',
    token_ids: [11],
    prompt_token_ids: prompt,
    logprobs: { token_logprobs: [-0.5] },
    finish_reason: 'length',
    stop_reason: null,
  };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const usage = { prompt_tokens: prompt.length, completion_tokens: 1 };
  response.end(`data: ${JSON.stringify({ choices: [choice], usage })}\n\ndata: [DONE]\n\n`);
}

test('a limit leaves room for an answer, or is not why a request was refused', () => {
  const count = fc.integer({ min: 1, max: 20_000 });
  fc.assert(
    fc.property(fc.tuple(count, count, count), ([limit, prompt_tokens, max_tokens]) => {
      const room = roomIn({ tokens: limit }, { prompt_tokens, max_tokens });
      assert.equal(room === null, prompt_tokens + max_tokens <= limit);
      if (room !== null) assert.ok(room === 0 ? prompt_tokens >= limit : room < max_tokens);
    }),
  );
});

test('a limit that has room for just what was asked for is not why it was refused', () => {
  const sent = { prompt_tokens: 100, max_tokens: 28 };
  assert.equal(roomIn({ tokens: 128 }, sent), null);
  assert.equal(roomIn({ tokens: 127 }, sent), 27);
  assert.equal(roomIn({ tokens: 100 }, sent), 0);
});
