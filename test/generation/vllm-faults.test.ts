import assert from 'node:assert/strict';
import { createServer, type AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import type { FaultType } from '../../src/model/faults.js';
import { capture, chunksOf, counted, eventStream, recordedResult } from './captures.js';
import {
  assertFault,
  collector,
  fakeVllm,
  replay,
  reply,
  REQUEST,
  startStream,
  streaming,
  untilAborted,
} from './fake-vllm.js';
import { eventually } from '../../lab/bed/waiting.js';

const COMPLETIONS = 'POST /v1/completions';
const RAW = counted(capture('004').raw);
const EVENTS = RAW.split(/(?<=\n\n)/);
const FINISH_AT = RAW.indexOf('\n\n', RAW.indexOf('"finish_reason":"length"')) + 2;

const wholeEvents = (cut: number): string =>
  RAW.slice(0, cut)
    .split(/(?<=\n\n)/)
    .filter((event) => event.endsWith('\n\n'))
    .join('');
const ids = (raw: string): number[] => recordedResult(chunksOf({ raw })).token_ids;

describe('a stream that is not whole', () => {
  const edited = (edit: (chunk: Record<string, unknown>) => unknown): string =>
    eventStream(
      structuredClone(chunksOf({ raw: RAW })).map((chunk, i) =>
        i === 1 ? edit({ ...chunk }) : chunk,
      ),
    );
  const firstChoice = (fields: object) => (chunk: Record<string, unknown>) => ({
    ...chunk,
    choices: [{ ...(chunk['choices'] as object[])[0], ...fields }],
  });
  const cases: [name: string, raw: string, type: FaultType, message: RegExp][] = [
    [
      'an error inside the stream, then [DONE] (capture 191)',
      capture('191').raw,
      'GenerationUnavailable',
      /error inside the stream: .*EngineCore encountered an issue/,
    ],
    [
      'tokens, then an error (capture 190)',
      capture('190').raw,
      'GenerationUnavailable',
      /EngineCore encountered an issue/,
    ],
    [
      'a flat error inside the stream',
      'data: {"error": "boom"}\n\ndata: [DONE]\n\n',
      'GenerationUnavailable',
      /boom/,
    ],
    [
      'tokens, then an error with the code 400',
      `${EVENTS.slice(0, 2).join('')}data: {"error":{"message":"Out of range float values","type":"BadRequestError","param":null,"code":400}}\n\ndata: [DONE]\n\n`,
      'GenerationRejected',
      /error inside the stream: 400 Out of range float values/,
    ],
    [
      'an error with the code "404" as a text',
      'data: {"error":{"message":"The model `x` does not exist.","code":"404"}}\n\n',
      'GenerationRejected',
      /error inside the stream: 404 The model `x` does not exist/,
    ],
    [
      'a flat error with the code 422',
      'data: {"object":"error","message":"bad sampling","type":"BadRequestError","param":null,"code":422}\n\n',
      'GenerationRejected',
      /error inside the stream: 422 bad sampling/,
    ],
    [
      'an error with the code 429',
      'data: {"error":{"message":"slow down","code":429}}\n\n',
      'GenerationUnavailable',
      /error inside the stream: slow down/,
    ],
    [
      'an error with the code 504 of a gateway',
      'data: {"error":{"message":"TimeoutError","type":"GatewayTimeout","code":504}}\n\ndata: [DONE]\n\n',
      'GenerationUnavailable',
      /error inside the stream: TimeoutError/,
    ],
    [
      'an error whose code is a word',
      'data: {"error":{"message":"no","code":"context_length_exceeded"}}\n\n',
      'GenerationUnavailable',
      /error inside the stream: no/,
    ],
    [
      '[DONE] without a finish reason (capture 146)',
      capture('146').raw,
      'GenerationUnavailable',
      /before its first token without a finish reason/,
    ],
    [
      'an abort by the engine (capture 151)',
      capture('151').raw,
      'GenerationUnavailable',
      /engine aborted the request after 72 tokens/,
    ],
    ['nothing at all', '', 'GenerationUnavailable', /before its first token/],
    [
      'NaN, which is no JSON',
      RAW.replace('-4.869795322418213]', 'NaN]'),
      'ProtocolError',
      /expected JSON/,
    ],
    [
      'a null logprob',
      edited(firstChoice({ logprobs: { token_logprobs: [null] } })),
      'ProtocolError',
      /logprob of token 1: expected .*got null/,
    ],
    [
      'another prompt than the one sent',
      RAW.replace('"prompt_token_ids":[42,71,', '"prompt_token_ids":[42,17,'),
      'ProtocolError',
      /prompt echo: expected id 71 at 1, got 17/,
    ],
    [
      'a prompt echo of more levels than can be written',
      RAW.replace(
        '"prompt_token_ids":[42,71,',
        `"prompt_token_ids":[42,${'['.repeat(100_000)}${']'.repeat(100_000)},`,
      ),
      'ProtocolError',
      /prompt echo: expected id 71 at 1, got \[object Array\]/,
    ],
    ['no ids (capture 007)', capture('007').raw, 'ProtocolError', /expected token_ids/],
  ];
  for (const [name, raw, type, message] of cases) {
    test(`${name}: ${type}`, async (t) => {
      const { service, base_url } = await fakeVllm(t, { [COMPLETIONS]: streaming(raw) });
      const request = { ...REQUEST, max_tokens: 300 };
      const generation = service.generate(request, { signal: untilAborted(), ...collector() });
      await assertFault(generation, { type, message, at: base_url });
    });
  }

  for (const how of ['ended', 'reset'] as const) {
    test(`and is ${how} at any byte: GenerationUnavailable, the whole events before it handed on`, async (t) => {
      let cut = 0;
      const { service, base_url } = await fakeVllm(t, {
        [COMPLETIONS]: async (exchange) => {
          const response = startStream(exchange);
          await new Promise((resolve) => response.write(RAW.slice(0, cut), resolve));
          if (how === 'ended') response.end();
          else response.socket?.resetAndDestroy();
        },
      });
      for (cut = 0; cut < FINISH_AT; cut += 197) {
        const { got, onDelta } = collector();
        const generation = service.generate(REQUEST, { signal: untilAborted(), onDelta });
        await assertFault(generation, {
          type: 'GenerationUnavailable',
          message: /./,
          at: base_url,
        });
        const arrived = ids(wholeEvents(cut));
        if (how === 'ended') assert.deepEqual(got.token_ids, arrived, `cut at ${cut}`);
        // A reset may overtake what was written before it.
        else assert.deepEqual(got.token_ids, arrived.slice(0, got.token_ids.length));
      }
    });
  }

  test('but has its finish reason counts, though the connection breaks after it', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: async (exchange) => {
        startStream(exchange).write(RAW.slice(0, FINISH_AT));
        await sleep(50);
        exchange.response.socket?.resetAndDestroy();
      },
    });
    const { got, onDelta } = collector();
    const end = await service.generate(REQUEST, { signal: untilAborted(), onDelta });
    assert.equal(end.finish_reason, 'length');
    assert.deepEqual(got.token_ids, ids(RAW));
  });
});

describe('silence', () => {
  const limits = { first_token_timeout_ms: 120, idle_timeout_ms: 60 };

  test('before the first token ends with the first-token timeout and closes the connection', async (t) => {
    const { service, base_url, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: () => undefined,
      'GET /is_paused': replay('194'),
      options: limits,
    });
    const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    await assertFault(generation, {
      type: 'GenerationUnavailable',
      message: /first-token timeout: no token for 0\.12 s/,
      at: base_url,
    });
    await exchanges[0]?.closed;
  });

  test('in the stream ends with the idle timeout, its tokens handed on', async (t) => {
    const { service, base_url, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: (exchange) => {
        startStream(exchange).write(EVENTS.slice(0, 3).join(''));
      },
      'GET /is_paused': replay('107'),
      options: { ...limits, first_token_timeout_ms: 600_000 },
    });
    const { got, onDelta } = collector();
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), onDelta }), {
      type: 'GenerationUnavailable',
      message: /idle timeout: no token for 0\.06 s/,
      at: base_url,
    });
    assert.deepEqual(got.token_ids, [539, 346, 271]);
    await exchanges[0]?.closed;
  });

  test('ends nothing while the engine is paused, before the first token or after', async (t) => {
    let asked = 0;
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: async (exchange) => {
        await eventually('questions', () => asked >= 3);
        const response = startStream(exchange);
        response.write(EVENTS[0] ?? '');
        await eventually('more questions', () => asked >= 6);
        response.end(EVENTS.slice(1).join(''));
      },
      'GET /is_paused': (exchange) => {
        asked += 1;
        void reply(200, '{"is_paused":true}')(exchange);
      },
      options: limits,
    });
    const { got, onDelta } = collector();
    await service.generate(REQUEST, { signal: untilAborted(), onDelta });
    assert.deepEqual(got.token_ids, ids(RAW));
  });

  test('after the end is ignored', async (t) => {
    const { service, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: replay('004'),
      // A busy machine may be slower than the limit, and then it is asked about.
      'GET /is_paused': replay('107'),
      options: { first_token_timeout_ms: 500, idle_timeout_ms: 500 },
    });
    await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    // A question that was on its way may still arrive.
    await sleep(200);
    const { length } = exchanges;
    await sleep(700);
    assert.equal(exchanges.length, length, 'the pause was asked about');
  });

  test('between chunks is measured anew after each', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: async (exchange) => {
        const response = startStream(exchange);
        for (const event of EVENTS) {
          response.write(event);
          await sleep(150);
        }
        response.end();
      },
      'GET /is_paused': replay('107'),
      options: { first_token_timeout_ms: 60_000, idle_timeout_ms: 1500 },
    });
    const end = await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    assert.ok(end.generate_s > 1.5, 'longer than the limit in all');
  });
});

test('a closed port is GenerationUnavailable, with the port', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const base_url = `http://127.0.0.1:${port}/v1`;
  const limits = { first_token_timeout_ms: 5000, idle_timeout_ms: 5000 };
  const service = createVllmService({ base_url, api_key: null, ...limits });
  const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
  await assertFault(generation, {
    type: 'GenerationUnavailable',
    message: /ECONNREFUSED/,
    at: base_url,
  });
  await service.close();
});
