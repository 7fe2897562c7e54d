import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { capture } from './captures.js';
import {
  assertFault,
  collector,
  fakeVllm,
  replay,
  REQUEST,
  reply,
  streaming,
  untilAborted,
} from './fake-vllm.js';

const GENERATE = 'POST /inference/v1/generate';
const COMPLETIONS = 'POST /v1/completions';
const wire = { wire: 'generate' as const };

interface Event {
  choices: {
    token_ids: number[];
    weight_versions: { version: string; start: number; end: number }[] | null;
    logprobs: { content: { logprob: number }[] };
  }[];
}
const eventsOf = (raw: string): Event[] =>
  raw
    .split('\n\n')
    .map((event) => event.slice('data: '.length))
    .filter((event) => event.startsWith('{'))
    .map((event) => JSON.parse(event) as Event);

const NO_EXPERTS = '"routed_experts":null';
const EXPERTS = `"routed_experts":"${'AbC+/9'.repeat(2 * 2 ** 20)}=="`;
const MASK = Array.from({ length: 150_000 }, (_, id) => id).join(',');

describe('/inference/v1/generate', () => {
  test('is asked for ids alone, with the same sampling as completions, and no stop strings', async (t) => {
    const { service, exchanges } = await fakeVllm(t, {
      [GENERATE]: replay('117'),
      options: wire,
    });
    const request = { ...REQUEST, cache_salt: '17' };
    await service.generate(request, { signal: untilAborted(), ...collector() });
    const [exchange] = exchanges;
    const { sampling_params, ...outside } = exchange?.body as {
      sampling_params: Record<string, unknown>;
    };
    assert.deepEqual(outside, {
      model: 'tiny',
      token_ids: REQUEST.prompt_ids,
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      cache_salt: '17',
    });
    const { temperature, max_tokens, seed, logprobs, detokenize, stop_token_ids } = sampling_params;
    assert.deepEqual(
      { temperature, max_tokens, seed, logprobs, detokenize, stop_token_ids },
      {
        temperature: 0.7,
        max_tokens: 12,
        seed: 7,
        logprobs: 0,
        detokenize: false,
        stop_token_ids: [2],
      },
    );
    assert.ok(!('stop' in sampling_params) && !('return_token_ids' in sampling_params));
    assert.equal(exchange?.headers['x-session-id'], REQUEST.session_id);
  });

  for (const [what, experts] of [
    ['routed experts with each token', (raw: string) => raw.replaceAll(NO_EXPERTS, EXPERTS)],
    [
      'those of the whole turn with its last token',
      (raw: string) => {
        const at = raw.lastIndexOf(NO_EXPERTS);
        return raw.slice(0, at) + EXPERTS + raw.slice(at + NO_EXPERTS.length);
      },
    ],
    [
      'the mask of each token',
      (raw: string) =>
        raw.replaceAll('"sampling_mask":null', `"sampling_mask":[[${MASK}],[${MASK}]]`),
    ],
  ] as const)
    test(`from an engine that sends ${what} unasked is whole: they count towards no limit`, async (t) => {
      const { raw } = capture('243');
      const sent = experts(raw);
      assert.ok(sent.length > 8 * 2 ** 20);
      const script = { [GENERATE]: streaming(sent), 'GET /is_paused': reply(404, '') };
      const { service } = await fakeVllm(t, { ...script, options: wire });
      const { got, onDelta } = collector();
      await service.generate(REQUEST, { signal: untilAborted(), onDelta });
      const choices = eventsOf(raw).flatMap((event) => event.choices);
      assert.deepEqual(
        got.token_ids,
        choices.flatMap(({ token_ids }) => token_ids),
      );
    });

  test('brings the recorded ids and logprobs, no text, and names the weights of each token', async (t) => {
    const { raw } = capture('189');
    const choices = eventsOf(raw).flatMap((event) => event.choices);
    // The capture did not ask for what it used.
    const usage = { choices: [], usage: { prompt_tokens: 7, completion_tokens: 150 } };
    const whole = raw.replace('data: [DONE]', `data: ${JSON.stringify(usage)}\n\ndata: [DONE]`);
    const { service } = await fakeVllm(t, { [GENERATE]: streaming(whole), options: wire });
    const { got, onDelta } = collector();
    const request = { ...REQUEST, max_tokens: 150 };
    const end = await service.generate(request, { signal: untilAborted(), onDelta });
    assert.deepEqual(got, {
      token_ids: choices.flatMap(({ token_ids }) => token_ids),
      logprobs: choices.flatMap(({ logprobs }) => logprobs.content.map(({ logprob }) => logprob)),
      text: '',
    });
    assert.equal(got.token_ids.length, 150);
    assert.equal(end.finish_reason, 'length');
    assert.deepEqual(end.spans, [
      { version: 'default', start: 0, end: 41 },
      { version: '18', start: 41, end: 150 },
    ]);
    assert.equal(service.tells_text?.(), false);
  });

  for (const [what, spans] of [
    ['a token of no weights', [{ version: '17', start: 0, end: 4 }]],
    [
      'a gap',
      [
        { version: '16', start: 0, end: 2 },
        { version: '17', start: 3, end: 5 },
      ],
    ],
    ['more tokens than came', [{ version: '17', start: 0, end: 6 }]],
  ] as const) {
    test(`breaks the protocol with spans that have ${what}`, async (t) => {
      const { raw } = capture('117');
      const told = JSON.stringify([{ version: 'default', start: 0, end: 5 }]);
      assert.ok(raw.includes(told));
      const { service, base_url } = await fakeVllm(t, {
        [GENERATE]: streaming(raw.replace(told, JSON.stringify(spans))),
        options: wire,
      });
      const asking = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
      const message = /expected weight_versions of all 5 tokens/;
      await assertFault(asking, { type: 'ProtocolError', message, at: base_url });
    });
  }

  for (const [status, answer] of [
    [403, replay('203')],
    [404, reply(404, '{"detail":"Not Found"}')],
  ] as const) {
    test(`is given up for completions where the server says ${status}, once and for all`, async (t) => {
      const { service, exchanges } = await fakeVllm(t, {
        [GENERATE]: answer,
        [COMPLETIONS]: replay('004'),
        options: wire,
      });
      for (let i = 0; i < 2; i++) {
        const { got, onDelta } = collector();
        await service.generate(REQUEST, { signal: untilAborted(), onDelta });
        assert.equal(got.token_ids.length, 12);
      }
      const routes = exchanges.map(({ route }) => route);
      assert.deepEqual(routes, [GENERATE, COMPLETIONS, COMPLETIONS]);
      assert.equal(service.tells_text?.(), true);
    });
  }

  test('is not given up where the server refuses what was asked', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      [GENERATE]: replay('049'),
      [COMPLETIONS]: replay('049'),
      options: wire,
    });
    const asking = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    // An unknown model is a 404, too.
    await assertFault(asking, {
      type: 'GenerationRejected',
      message: /does not exist/,
      at: base_url,
    });
    assert.equal(service.tells_text?.(), false);
  });
});

describe('completions of vLLM 0.33', () => {
  const script = (number: string) => ({ [COMPLETIONS]: streaming(capture(number, '0.33.0').raw) });
  const request = { ...REQUEST, prompt_ids: capture('01', '0.33.0').prompt, max_tokens: 300 };

  test('name the weights of each token, which is known of them from the first answer on', async (t) => {
    const { service } = await fakeVllm(t, script('01'));
    const asking = { pictures: [], stop_strings: ['.'] };
    const names = () => service.names_spans?.(asking);
    assert.equal(names(), false);
    const { got, onDelta } = collector();
    const end = await service.generate(request, { signal: untilAborted(), onDelta });
    assert.equal(got.token_ids.length, 80);
    assert.deepEqual(end.spans, [
      { version: '7', start: 0, end: 25 },
      { version: '8', start: 25, end: 80 },
    ]);
    assert.equal(names(), true);
  });

  test('are unavailable while the engine is paused, and where a pause has cut them off', async (t) => {
    for (const [number, message] of [
      ['03', /error inside the stream: Generation is paused/],
      ['02', /the engine aborted the request after \d+ tokens/],
    ] as const) {
      const { service, base_url } = await fakeVllm(t, script(number));
      const asking = service.generate(request, { signal: untilAborted(), ...collector() });
      await assertFault(asking, { type: 'GenerationUnavailable', message, at: base_url });
    }
  });
});

test('completions have text unless a setting turns it off', async () => {
  const service = createVllmService({
    base_url: 'http://127.0.0.1:9/v1',
    api_key: null,
    first_token_timeout_ms: 1000,
    idle_timeout_ms: 1000,
  });
  assert.equal(service.tells_text?.(), true);
  await service.close();
});
