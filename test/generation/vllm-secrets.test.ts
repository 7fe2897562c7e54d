import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import { keepSecret } from '../../src/platform/secrets.js';
import { eventStream } from './captures.js';
import type { Exchange } from './fake-vllm.js';
import {
  assertFault,
  collector,
  fakeVllm,
  reply,
  REQUEST,
  startStream,
  streaming,
  untilAborted,
} from './fake-vllm.js';

const COMPLETIONS = 'POST /v1/completions';
const TOKENIZE = 'POST /tokenize';
const KEY = 'sk-of-this-engine-0123456789';
keepSecret(KEY);

describe('an engine that repeats a secret', () => {
  const echo = ({ headers }: Exchange): string => JSON.stringify({ headers });
  const withKey = { api_key: KEY };
  const saysNoKey = (promise: Promise<unknown>): Promise<void> =>
    assert.rejects(promise, (error) => {
      assert.ok(error instanceof Fault, String(error));
      assert.match(error.message, /\[secret\]/);
      for (let at = 0; at + 8 <= KEY.length; at++)
        assert.ok(!error.message.includes(KEY.slice(at, at + 8)), error.message);
      return true;
    });

  test('in the body of a 401 is quoted without it', async (t) => {
    const refuse = (exchange: Exchange) => void reply(401, echo(exchange))(exchange);
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: refuse,
      'GET /health': reply(200, ''),
      'GET /v1/models': refuse,
      options: withKey,
    });
    await saysNoKey(service.generate(REQUEST, { signal: untilAborted(), ...collector() }));
    await saysNoKey(service.describe(untilAborted()));
  });

  test('within the stream is quoted without it, and not at any length', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: (exchange) => {
        const message = `${echo(exchange)}${'x'.repeat(100_000)}`;
        startStream(exchange).end(`data: ${JSON.stringify({ error: { message } })}\n\n`);
      },
      options: withKey,
    });
    const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    await saysNoKey(generation);
    await assert.rejects(generation, (error: Error) => error.message.length < 4100);
  });

  test('in a field that is quoted in part is quoted without any part of it', async (t) => {
    for (let before = 0; before < 80; before += 7) {
      const choice = { index: `${'x'.repeat(before)}${KEY}`, text: '' };
      const { service } = await fakeVllm(t, {
        [COMPLETIONS]: streaming(eventStream([{ choices: [choice] }])),
        options: withKey,
      });
      await assert.rejects(
        service.generate(REQUEST, { signal: untilAborted(), ...collector() }),
        (error) => error instanceof Fault && !error.message.includes('sk-o'),
      );
    }
  });

  test('in what is no JSON is not quoted at all', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      [COMPLETIONS]: streaming(`data: Bearer ${KEY}\n\n`),
      [TOKENIZE]: reply(200, `Bearer ${KEY}`),
      options: withKey,
    });
    const fault = { type: 'ProtocolError', at: base_url } as const;
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), ...collector() }), {
      ...fault,
      message: /: expected JSON, got other text$/,
    });
    const tokenize = { model: 'tiny', text: 'a', add_special_tokens: false };
    await assertFault(service.tokenize(tokenize, untilAborted()), {
      ...fault,
      message: /\(input\): expected object, got nothing$/,
    });
  });
});
