import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Fault } from '../../src/model/faults.js';
import { answer, startServer } from '../environments/loopback-server.js';
import { capture, eventStream } from './captures.js';
import type { Exchange } from './fake-vllm.js';
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
import { longestHold_ms, processorTime_ms } from '../harness/processor-time.js';
import { within } from '../../lab/bed/waiting.js';

const COMPLETIONS = 'POST /v1/completions';
const GENERATE = 'POST /inference/v1/generate';
const TOKENIZE = 'POST /tokenize';
const MIB = 2 ** 20;

const FIRST_EVENT = capture('004').raw.slice(0, capture('004').raw.indexOf('\n\n') + 2);
const EMPTY_DELTA = eventStream([
  { choices: [{ index: 0, text: '', token_ids: [], logprobs: { token_logprobs: [] } }] },
]).replace('data: [DONE]\n\n', '');

/** Resolves when more can be written, or the connection is gone. */
const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const go = (): void => {
      response.off('drain', go).off('close', go);
      resolve();
    };
    response.on('drain', go).on('close', go);
  });

/** Writes the text again and again, as fast as it is read or every few ms, until the connection is gone. */
async function forEver(response: ServerResponse, { text, ms }: { text: string; ms?: number }) {
  while (!response.destroyed) {
    const isFull = !response.write(text);
    if (ms !== undefined) await sleep(ms);
    else if (isFull) await drained(response);
  }
}

const endless =
  (stream: { before?: string; text: string; ms?: number }) =>
  (exchange: Exchange): void => {
    const response = startStream(exchange);
    response.on('error', () => undefined);
    response.write(stream.before ?? '');
    void forEver(response, stream);
  };

describe('an engine that streams without end', () => {
  const limits = { first_token_timeout_ms: 20_000, idle_timeout_ms: 20_000 };

  test('a line without its end fails soon, and holds nothing up', async (t) => {
    const { service, base_url, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: endless({ text: 'x'.repeat(65_536) }),
      'GET /is_paused': replay('107'),
      options: { ...limits, max_answer_bytes: 2 * MIB },
    });
    const request = { ...REQUEST, max_tokens: 100_000 };
    const held_ms = await longestHold_ms(() =>
      assertFault(service.generate(request, { signal: untilAborted(), ...collector() }), {
        type: 'ProtocolError',
        message: /answered with an event of more than 2097152 bytes/,
        at: base_url,
      }),
    );
    assert.ok(held_ms < 1000, `nothing else ran for ${held_ms} ms`);
    await exchanges[0]?.closed;
  });

  for (const [what, text] of [
    ['comments', ': keep-alive\n\n'],
    ['empty deltas', EMPTY_DELTA],
    ['chunks of no choice', 'data: {"choices":[]}\n\n'],
  ] as const) {
    for (const [when, before, message] of [
      ['before its first token', '', /first-token timeout: no token for 0\.3 s/],
      ['behind a token', FIRST_EVENT, /idle timeout: no token for 0\.2 s/],
    ] as const)
      test(`${what} ${when} make no progress: the rollout goes elsewhere`, async (t) => {
        const { service, base_url, exchanges } = await fakeVllm(t, {
          [COMPLETIONS]: endless({ before, text, ms: 10 }),
          'GET /is_paused': replay('107'),
          options:
            before === ''
              ? { first_token_timeout_ms: 300, idle_timeout_ms: 60_000 }
              : { first_token_timeout_ms: 60_000, idle_timeout_ms: 200 },
        });
        const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
        await assertFault(generation, { type: 'GenerationUnavailable', message, at: base_url });
        await exchanges[0]?.closed;
      });

    test(`${what} as fast as they can be written fail by their bytes`, async (t) => {
      const { service, base_url } = await fakeVllm(t, {
        [COMPLETIONS]: endless({ text: text.repeat(1000) }),
        'GET /is_paused': replay('107'),
        options: limits,
      });
      const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
      await assertFault(generation, {
        type: 'ProtocolError',
        message: /answered with a stream of more than \d+ bytes/,
        at: base_url,
      });
    });
  }

  test('a finish reason, and then no end: the turn is whole all the same', async (t) => {
    const { raw } = capture('004');
    const whole = raw.replace('data: [DONE]\n\n', '');
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: endless({ before: whole, text: 'data: {"choices":[]}\n\n', ms: 10 }),
      'GET /is_paused': replay('107'),
      options: { first_token_timeout_ms: 60_000, idle_timeout_ms: 200 },
    });
    const end = await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    assert.equal(end.finish_reason, 'length');
  });

  test('[DONE], and then no end: no wait', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: endless({ before: capture('004').raw, text: ': more\n\n' }),
      options: { first_token_timeout_ms: 600_000, idle_timeout_ms: 600_000 },
    });
    const generation = service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    await within('its end', generation);
  });

  test('more tokens than were asked for break the protocol at the first one', async (t) => {
    const token = { index: 0, text: 'a', token_ids: [1], logprobs: { token_logprobs: [-1] } };
    const { service, base_url } = await fakeVllm(t, {
      [COMPLETIONS]: endless({ text: `data: ${JSON.stringify({ choices: [token] })}\n\n` }),
      options: limits,
    });
    const { got, onDelta } = collector();
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), onDelta }), {
      type: 'ProtocolError',
      message: /expected at most 12 tokens, got 13/,
      at: base_url,
    });
    assert.deepEqual(got.token_ids, [], 'nobody has counted them');
  });

  test('of what nobody asked for is left in time, and holds none of it', async (t) => {
    const [event = ''] = capture('117').raw.split('"routed_experts":null');
    const { service, base_url, exchanges } = await fakeVllm(t, {
      [GENERATE]: endless({ before: `${event}"routed_experts":"`, text: 'A'.repeat(65_536) }),
      'GET /is_paused': replay('107'),
      options: { first_token_timeout_ms: 1000, idle_timeout_ms: 1000, wire: 'generate' },
    });
    const before = process.memoryUsage().rss;
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), ...collector() }), {
      type: 'GenerationUnavailable',
      message: /first-token timeout/,
      at: base_url,
    });
    const grown = process.memoryUsage().rss - before;
    assert.ok(grown < 128 * MIB, `${grown / MIB} MiB more`);
    await exchanges[0]?.closed;
  });

  for (const [what, wrong] of [
    ['ids', { index: 0, text: '', token_ids: Array(500_000).fill(null) }],
    ['choices', Array(500_000).fill(0)],
    ['weights', { index: 0, text: '', token_ids: [], weight_versions: Array(500_000).fill(0) }],
  ] as const)
    test(`a chunk of half a million wrong ${what} costs one report`, async (t) => {
      const chunk = { choices: Array.isArray(wrong) ? wrong : [wrong] };
      const { service } = await fakeVllm(t, {
        [COMPLETIONS]: streaming(`data: ${JSON.stringify(chunk)}\n\n`),
        options: limits,
      });
      const request = { ...REQUEST, max_tokens: 4000 };
      const began = processorTime_ms();
      await assert.rejects(
        service.generate(request, { signal: untilAborted(), ...collector() }),
        (error) => error instanceof Fault && error.type === 'ProtocolError',
      );
      assert.ok(processorTime_ms() - began < 2000, `${processorTime_ms() - began} ms`);
    });
});

describe('an engine that answers without end', () => {
  const tokenize = { model: 'tiny', text: 'a', add_special_tokens: false };

  test('has its tokens refused at the limit, and no more than it read', async (t) => {
    let sent = 0;
    const { service, base_url } = await fakeVllm(t, {
      [TOKENIZE]: async ({ response }) => {
        response.on('error', () => undefined);
        response.writeHead(200).write('{"tokens":[1');
        const text = ',1'.repeat(32_768);
        while (!response.destroyed && sent < 1200 * MIB) {
          sent += text.length;
          if (!response.write(text)) await drained(response);
        }
      },
      options: { max_answer_bytes: MIB },
    });
    await assertFault(service.tokenize(tokenize, untilAborted()), {
      type: 'ProtocolError',
      message: /POST \/tokenize: answered with more than 1048576 bytes/,
      at: base_url,
    });
    assert.ok(sent < 32 * MIB, `${sent} bytes were sent`);
  });

  test('to a text of a mebibyte has more tokens than any prompt: the text is too long', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      [TOKENIZE]: reply(200, JSON.stringify({ tokens: Array(600_000).fill(1) })),
      options: { max_answer_bytes: MIB },
    });
    await assertFault(service.tokenize({ ...tokenize, text: 'a'.repeat(MIB) }, untilAborted()), {
      type: 'PromptTooLong',
      message: /POST \/tokenize: answered with more than 1048576 bytes: the text has more tokens/,
      at: base_url,
    });
  });

  test('has one wrong token of half a million reported', async (t) => {
    const tokens = JSON.stringify({ tokens: Array(500_000).fill('x') });
    const { service, base_url } = await fakeVllm(t, { [TOKENIZE]: reply(200, tokens) });
    const began = processorTime_ms();
    await assertFault(service.tokenize(tokenize, untilAborted()), {
      type: 'ProtocolError',
      message: /tokens\.0: expected a token id, .*, got "x"$/,
      at: base_url,
    });
    assert.ok(processorTime_ms() - began < 2000, `${processorTime_ms() - began} ms`);
  });

  test('has of a refusal in gzip no more than its beginning read', async (t) => {
    const bomb = gzipSync(Buffer.alloc(100 * MIB, 'x'));
    const { service, base_url } = await fakeVllm(t, {
      [COMPLETIONS]: ({ response }) => {
        response.writeHead(400, { 'content-encoding': 'gzip' });
        response.end(bomb);
      },
      'GET /v1/models': replay('102'),
    });
    const before = process.memoryUsage().rss;
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), ...collector() }), {
      type: 'GenerationRejected',
      message: /400 x{2000}…$/,
      at: base_url,
    });
    const grown = process.memoryUsage().rss - before;
    assert.ok(grown < 64 * MIB, `${grown / MIB} MiB more`);
  });
});

describe('an engine whose names are endless', () => {
  const LONG = 'x'.repeat(MIB);

  test('has no label for its weights: each chunk of a journal would have it', async (t) => {
    const label = reply(200, JSON.stringify({ weight_version: LONG }));
    const { service } = await fakeVllm(t, { 'GET /weight_info': label });
    assert.equal(await service.weightVersion(untilAborted()), null);
  });

  test('has no model: each request and each journal would have it', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      'GET /health': reply(200, ''),
      'GET /v1/models': reply(200, JSON.stringify({ data: [{ id: LONG }] })),
    });
    await assertFault(service.describe(untilAborted()), {
      type: 'ProtocolError',
      message: /data\.0\.id: expected at most 1000 characters, got "x+…?/,
      at: base_url,
    });
  });

  test('and whose spans have no token says one thing of each token', async (t) => {
    const { raw } = capture('117');
    const told = JSON.stringify([{ version: 'default', start: 0, end: 5 }]);
    const empty = Array.from({ length: 1000 }, () => ({ version: 'x', start: 0, end: 0 }));
    const spans = JSON.stringify([...empty, { version: 'default', start: 0, end: 5 }]);
    assert.ok(raw.includes(told));
    const { service } = await fakeVllm(t, {
      'POST /inference/v1/generate': streaming(raw.replace(told, spans)),
      options: { wire: 'generate' },
    });
    const end = await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    assert.deepEqual(end.spans, [{ version: 'default', start: 0, end: 5 }]);
  });
});

describe('an engine that redirects', () => {
  test('a completion is not followed there, whose prompt is not for it', async (t) => {
    const elsewhere = await startServer(answer(200, {}));
    const { service, base_url } = await fakeVllm(t, {
      [COMPLETIONS]: ({ response }) => {
        response.writeHead(307, { location: `${elsewhere.url}/v1/completions` }).end();
      },
    });
    await assertFault(service.generate(REQUEST, { signal: untilAborted(), ...collector() }), {
      type: 'GenerationRejected',
      message: new RegExp(`307 a redirect to ${new URL(elsewhere.url).host}: redirects are not`),
      at: base_url,
    });
    assert.deepEqual(elsewhere.received, []);
  });

  test('no other request is followed either', async (t) => {
    const elsewhere = await startServer(answer(200, { tokens: [1] }));
    const { service, base_url } = await fakeVllm(t, {
      [TOKENIZE]: ({ response }) => {
        response.writeHead(308, { location: elsewhere.url }).end();
      },
    });
    const request = { model: 'tiny', text: 'a', add_special_tokens: false };
    await assertFault(service.tokenize(request, untilAborted()), {
      type: 'GenerationRejected',
      message: /308 a redirect to 127\.0\.0\.1:\d+: redirects are not followed$/,
      at: base_url,
    });
    assert.deepEqual(elsewhere.received, []);
  });
});
