import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { wireFault } from '../../src/generation/wire/wire-faults.js';
import type { FaultType } from '../../src/model/faults.js';
import {
  assertFault,
  collector,
  fakeVllm,
  replay,
  reply,
  REQUEST,
  untilAborted,
  withHeaders,
  type Exchange,
} from './fake-vllm.js';

const COMPLETIONS = 'POST /v1/completions';

describe('a refusal', () => {
  const unavailable = 'GenerationUnavailable';
  const rejected = 'GenerationRejected';
  const busy = '{"error":{"message":"busy","type":"x","param":null,"code":503}}';
  const cases: {
    name: string;
    answer: (exchange: Exchange) => void | Promise<void>;
    type: FaultType;
    message: RegExp;
    retryAfterMs?: number | null;
  }[] = [
    {
      name: '503 with retry-after 7',
      answer: withHeaders({ 'retry-after': '7' }, reply(503, busy)),
      type: unavailable,
      message: /503 busy/,
      retryAfterMs: 7000,
    },
    {
      name: '503 with retry-after-ms 250',
      answer: withHeaders({ 'retry-after-ms': '250', 'retry-after': '1' }, reply(503, busy)),
      type: unavailable,
      message: /503 busy/,
      retryAfterMs: 250,
    },
    {
      name: '429 that asks for an hour',
      answer: withHeaders(
        {
          'retry-after': '3600',
        },
        reply(429, '{"object":"error","message":"slow down","code":429}'),
      ),
      type: unavailable,
      message: /429 slow down/,
      retryAfterMs: 60_000,
    },
    {
      name: '503 that names no time',
      answer: reply(503, busy),
      type: unavailable,
      message: /503 busy/,
      retryAfterMs: null,
    },
    {
      name: '408 of a gateway',
      answer: reply(408, '<html>gateway</html>'),
      type: unavailable,
      message: /408 <html>gateway/,
    },
    { name: '500 without a body', answer: reply(500, ''), type: unavailable, message: /500/ },
    {
      name: 'capture 042, an id out of the vocabulary',
      answer: replay('042'),
      type: rejected,
      message: /400 Token id 600 is out of vocabulary/,
    },
    {
      name: 'capture 044, a field that does not validate',
      answer: replay('044'),
      type: rejected,
      message: /400 .*validation error/,
    },
    {
      name: 'capture 049, an unknown model',
      answer: replay('049'),
      type: rejected,
      message: /404 The model .* does not exist/,
    },
    {
      name: 'capture 066, an unknown route',
      answer: replay('066'),
      type: rejected,
      message: /404 Not Found/,
    },
    {
      name: 'capture 213, no key',
      answer: replay('213'),
      type: rejected,
      message: /401 Unauthorized/,
    },
    {
      name: '422 with a list of details',
      answer: reply(422, '{"detail":[{"loc":["body"],"msg":"field required"}]}'),
      type: rejected,
      message: /422 \[.*field required/,
    },
    {
      name: '422 with details of more levels than can be written',
      answer: reply(422, `{"detail":${'['.repeat(30_000)}${']'.repeat(30_000)}}`),
      type: rejected,
      message: /422 \[object Array\]/,
    },
    {
      name: '400 with a page of 5 kB',
      answer: reply(400, 'x'.repeat(5000)),
      type: rejected,
      message: /^.{0,200}x{2000}…$/,
    },
  ];
  for (const { name, answer, ...expected } of cases) {
    test(`${name} is ${expected.type} with the server's words`, async (t) => {
      const { service, base_url } = await fakeVllm(t, {
        [COMPLETIONS]: answer,
        'GET /v1/models': replay('102'),
      });
      const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
      await assertFault(generation, { ...expected, at: base_url });
    });
  }
});

describe('a connection that fails', () => {
  const site = { replica: 'http://engine/v1', call: 'GET /health' };

  test('is described by its code if it has no message, as for a name with several addresses', () => {
    const refused = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
    const { type, message } = wireFault(new TypeError('fetch failed', { cause: refused }), site);
    assert.equal(type, 'GenerationUnavailable');
    assert.equal(message, 'http://engine/v1: GET /health: fetch failed (ECONNREFUSED)');
  });
});
