import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { capture, chunksOf, counted, eventStream, recordedResult } from './captures.js';
import {
  collector,
  fakeVllm,
  replay,
  reply,
  REQUEST,
  startStream,
  streaming,
  untilAborted,
} from './fake-vllm.js';
import { within } from '../../lab/bed/waiting.js';

const COMPLETIONS = 'POST /v1/completions';
const RAW = counted(capture('004').raw);
const [FIRST_EVENT = ''] = RAW.split(/(?<=\n\n)/);

describe('a generation', () => {
  for (const number of ['004', '009', '026', '183']) {
    test(`hands on the recorded ids, logprobs and text of capture ${number}`, async (t) => {
      const { service } = await fakeVllm(t, { [COMPLETIONS]: replay(number) });
      const { got, onDelta } = collector();
      const request = { ...REQUEST, max_tokens: capture(number).max_tokens };
      const end = await service.generate(request, { signal: untilAborted(), onDelta });
      const { finish_reason, stop_reason, ...recorded } = recordedResult(chunksOf(capture(number)));
      assert.deepEqual(got, recorded);
      assert.deepEqual([end.finish_reason, end.stop_reason], [finish_reason, stop_reason]);
    });
  }

  test('arrives whole through network packets of 7 bytes', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: async (exchange) => {
        const response = startStream(exchange);
        const bytes = Buffer.from(capture('183').raw);
        for (let at = 0; at < bytes.length; at += 7) {
          response.write(bytes.subarray(at, at + 7));
          if (at % 70 === 0) await new Promise(setImmediate);
        }
        response.end();
      },
    });
    const { got, onDelta } = collector();
    await service.generate(REQUEST, { signal: untilAborted(), onDelta });
    assert.equal(got.text, 'é漢😀');
  });

  test('keeps a stop reason of 0, the falsy token id of capture 029', async (t) => {
    const whole = JSON.parse(capture('029').raw) as object;
    const { service } = await fakeVllm(t, { [COMPLETIONS]: streaming(eventStream([whole])) });
    const { onDelta } = collector();
    const end = await service.generate(REQUEST, { signal: untilAborted(), onDelta });
    assert.deepEqual([end.finish_reason, end.stop_reason], ['stop', 0]);
  });

  test('tells the wait for the first token from the time of generating', async (t) => {
    const { service } = await fakeVllm(t, {
      [COMPLETIONS]: async (exchange) => {
        const response = startStream(exchange);
        await sleep(80);
        response.write(FIRST_EVENT);
        await sleep(40);
        response.end(RAW.slice(FIRST_EVENT.length));
      },
    });
    const end = await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    assert.ok(end.queue_s >= 0.07, `queue_s ${end.queue_s}`);
    assert.ok(end.generate_s >= 0.03, `generate_s ${end.generate_s}`);
  });
});

describe('a request', () => {
  test('sends every sampling parameter, so that no server default applies', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [COMPLETIONS]: replay('004') });
    await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    assert.deepEqual(exchanges[0]?.body, {
      model: 'tiny',
      prompt: [42, 71, 78, 365, 320, 274, 482],
      max_tokens: 12,
      n: 1,
      temperature: 0.7,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.05,
      repetition_penalty: 1.25,
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      min_tokens: 3,
      ignore_eos: false,
      seed: 7,
      stop: ['</s>'],
      stop_token_ids: [2],
      skip_special_tokens: true,
      include_stop_str_in_output: true,
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      return_token_ids: true,
      return_weight_versions: true,
      logprobs: 0,
    });
  });

  test('asks for the likeliest ids by id, for a structure, and for no bad words, where the request has them', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [COMPLETIONS]: reply(503, '') });
    const more = {
      top_logprobs: 3,
      structured_outputs: { choice: ['left', 'right'] },
      bad_words: ['up', ' up'],
    };
    const generation = service.generate(
      { ...REQUEST, ...more },
      { signal: untilAborted(), ...collector() },
    );
    await assert.rejects(generation, /503/);
    const sent = exchanges[0]?.body as Record<string, unknown>;
    assert.deepEqual(
      [
        sent['logprobs'],
        sent['return_tokens_as_token_ids'],
        sent['structured_outputs'],
        sent['bad_words'],
      ],
      [3, true, { choice: ['left', 'right'] }, ['up', ' up']],
    );
  });

  test('leaves out logprobs, stops and seed when there are none', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [COMPLETIONS]: replay('004') });
    const none = { logprobs: false, stop_strings: [], stop_token_ids: [], seed: null };
    const { got, onDelta } = collector();
    await service.generate({ ...REQUEST, ...none }, { signal: untilAborted(), onDelta });
    const sent = Object.keys(exchanges[0]?.body as object);
    assert.deepEqual(
      ['logprobs', 'stop', 'stop_token_ids', 'seed'].filter((field) => sent.includes(field)),
      [],
    );
    assert.equal(got.token_ids.length, 12);
    assert.deepEqual(got.logprobs, []);
  });

  test('names itself, its rollout and the key in headers', async (t) => {
    const { service, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: replay('004'),
      options: { api_key: 'sekret' },
    });
    await service.generate(REQUEST, { signal: untilAborted(), ...collector() });
    const headers = exchanges[0]?.headers;
    assert.equal(headers?.['x-request-id'], 'batch/3-1.0.w1');
    assert.equal(headers['x-session-id'], 'batch/3-1');
    assert.equal(headers.authorization, 'Bearer sekret');
  });

  test('is made once, whatever the answer', async (t) => {
    const { service, exchanges } = await fakeVllm(t, {
      [COMPLETIONS]: ({ response }) => {
        response.writeHead(503).end();
      },
    });
    await assert.rejects(service.generate(REQUEST, { signal: untilAborted(), ...collector() }));
    assert.equal(exchanges.length, 1);
  });
});

describe('aborting the signal', () => {
  const reason = new Error('the rollout was stopped');

  test('sends nothing when it came first', async (t) => {
    const { service, exchanges } = await fakeVllm(t, {});
    const signal = AbortSignal.abort(reason);
    await assert.rejects(service.generate(REQUEST, { signal, ...collector() }), reason);
    assert.equal(exchanges.length, 0);
  });

  const MOMENTS = {
    'before the headers': () => undefined,
    'before the first token': (exchange: Parameters<typeof startStream>[0]) => {
      startStream(exchange).flushHeaders();
    },
    'in the middle of the stream': (exchange: Parameters<typeof startStream>[0]) => {
      startStream(exchange).write(FIRST_EVENT);
    },
  };
  for (const [moment, begin] of Object.entries(MOMENTS)) {
    test(`${moment} closes the connection and throws the signal's reason`, async (t) => {
      const controller = new AbortController();
      let closed: Promise<void> | undefined;
      const { service } = await fakeVllm(t, {
        [COMPLETIONS]: (exchange) => {
          closed = exchange.closed;
          begin(exchange);
          setTimeout(() => {
            controller.abort(reason);
          }, 50);
        },
      });
      const generation = service.generate(REQUEST, { signal: controller.signal, ...collector() });
      await assert.rejects(generation, reason);
      await within('the end of the connection', closed ?? assert.fail('it was not asked'));
      assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
    });
  }

  test('from within onDelta throws the reason too, though the stream may end quietly', async (t) => {
    const controller = new AbortController();
    const { service } = await fakeVllm(t, { [COMPLETIONS]: replay('004') });
    const onDelta = () => {
      controller.abort(reason);
    };
    await assert.rejects(service.generate(REQUEST, { signal: controller.signal, onDelta }), reason);
  });
});

test('an error of onDelta reaches the caller as it is, and closes the connection', async (t) => {
  let closed: Promise<void> | undefined;
  const { service } = await fakeVllm(t, {
    [COMPLETIONS]: (exchange) => {
      closed = exchange.closed;
      startStream(exchange).write(FIRST_EVENT);
    },
  });
  const bug = new TypeError('terminated');
  const onDelta = () => {
    throw bug;
  };
  await assert.rejects(
    service.generate(REQUEST, { signal: untilAborted(), onDelta }),
    (error) => error === bug,
  );
  await within('the end of the connection', closed ?? assert.fail('it was not asked'));
});

test('fifty generations leave no listener on the signal they share', async (t) => {
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => warnings.push(name);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const signal = untilAborted();
  const { service } = await fakeVllm(t, { [COMPLETIONS]: replay('004') });
  for (let i = 0; i < 50; i++) await service.generate(REQUEST, { signal, ...collector() });
  await sleep(10);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  assert.deepEqual(warnings, []);
});
