import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CutOff } from '../../src/generation/generation-service.js';
import { eventStream } from './captures.js';
import type { Event } from './fake-sglang.js';
import { SETTINGS, fakeSglang, LIST, PLAIN, recorded, run, tokensIn } from './fake-sglang.js';
import { sendJson } from '../servers/json-server.js';
import type { Exchange } from './fake-vllm.js';
import { assertFault, collector, reply, REQUEST, streaming, untilAborted } from './fake-vllm.js';

describe('/generate', () => {
  test('is asked for ids alone, with every parameter, and no stop strings', async (t) => {
    const fake = await fakeSglang(t);
    await run(fake, { cache_salt: '17', adapter: 'lora-3' });
    const [{ rid, ...body }] = fake.sent as [Record<string, unknown>];
    assert.match(String(rid), /^[0-9a-f-]{36}\.batch\/3-1\.0\.w1$/);
    assert.deepEqual(body, {
      input_ids: REQUEST.prompt_ids,
      lora_path: 'lora-3',
      extra_key: '17',
      stream: true,
      return_logprob: true,
      logprob_start_len: -1,
      top_logprobs_num: 0,
      sampling_params: {
        n: 1,
        max_new_tokens: 4,
        min_new_tokens: 3,
        temperature: 0.7,
        top_p: 1,
        top_k: -1,
        min_p: 0,
        repetition_penalty: 1.25,
        presence_penalty: 0.5,
        frequency_penalty: -0.5,
        ignore_eos: false,
        stop_token_ids: [2],
        sampling_seed: 7,
      },
    });
  });

  test('gets a name that no other request has, nor begins with', async (t) => {
    const fake = await fakeSglang(t);
    for (const request_id of ['r', 'r', 'r1']) await run(fake, { request_id });
    const rids = fake.sent.map(({ rid }) => String(rid));
    for (const [i, rid] of rids.entries())
      assert.ok(
        rids.every((other, k) => k === i || !other.startsWith(rid)),
        rids.join(),
      );
  });

  test('samples with the adapter that the model names, by the name that an update leaves', async (t) => {
    const fake = await fakeSglang(t, {
      models: [
        { ...LIST[0], id: '/checkpoints/7' },
        { id: 'adapter', parent: '/checkpoints/7', max_model_len: null, owned_by: 'sglang' },
      ],
    });
    const described = await fake.service.describe(untilAborted());
    assert.deepEqual(described, {
      version: '0.5.23',
      models: [
        { id: 'tiny', max_model_len: 2046 },
        { id: 'adapter', max_model_len: 2046 },
      ],
    });
    await run(fake, { model: 'tiny' });
    await run(fake, { model: 'adapter' });
    assert.deepEqual(
      fake.sent.map(({ lora_path }) => lora_path),
      [undefined, 'adapter'],
    );
  });

  test('goes by what the engine has said before, while its scheduler does not say it again', async (t) => {
    let asked = 0;
    const { service } = await fakeSglang(t, {
      more: {
        'GET /server_info': ({ response }) => {
          if (asked++ === 0) sendJson(response, { body: SETTINGS });
          else response.destroy();
        },
      },
    });
    const first = await service.describe(untilAborted());
    assert.deepEqual(await service.describe(untilAborted()), first);
    assert.equal(asked, 2);
  });

  for (const [number, max_tokens, what] of [
    ['02', 4, 'all tokens so far'],
    ['15', 5, 'new tokens alone'],
    ['03', 40, 'all tokens so far, through an update of weights'],
  ] as const)
    test(`brings the recorded ids and logprobs, and the weights of each, from events of ${what}`, async (t) => {
      const { raw, events } = recorded(number);
      const fake = await fakeSglang(t, {
        generate: streaming(raw),
        settings: { incremental_streaming_output: number === '15' },
      });
      const { got, end } = await run(fake, { max_tokens });
      assert.deepEqual(got, { ...tokensIn(events), text: '' });
      assert.equal(got.token_ids.length, max_tokens);
      assert.equal(end.finish_reason, 'length');
      assert.deepEqual(end.spans, events.at(-1)?.meta_info.weight_versions);
    });

  test('of likeliest ids, and of several tokens at once, is read in their places', async (t) => {
    const meta = (from: number, to: number) => ({
      prompt_tokens: 7,
      completion_tokens: to,
      output_token_logprobs: [-0.5, -1, -1.5]
        .slice(from, to)
        .map((one, i) => [one, from + i, null]),
      output_top_logprobs: [9, 8, 7].slice(from, to).map((id, i) => [
        [-0.25, id, null],
        [-0.5 * (from + i + 1), from + i, null],
      ]),
      finish_reason: to === 3 ? { type: 'stop', matched: 2 } : null,
    });
    const raw = eventStream([
      { output_ids: [0], meta_info: meta(0, 1) },
      { output_ids: [1, 2], meta_info: meta(1, 3) },
    ]);
    const fake = await fakeSglang(t, { generate: streaming(raw) });
    const tops: unknown[] = [];
    const { finish_reason, stop_reason } = await fake.service.generate(
      { ...PLAIN, top_logprobs: 2 },
      {
        signal: untilAborted(),
        onDelta: ({ top_logprobs = [] }) => {
          tops.push(...top_logprobs);
        },
      },
    );
    assert.deepEqual([finish_reason, stop_reason], ['stop', 2]);
    const own = [0, 1, 2].map((id) => [id, -0.5 * (id + 1)]);
    assert.deepEqual(
      tops,
      [9, 8, 7].map((id, i) => [[id, -0.25], own[i]]),
    );
  });

  test('asks for the logprobs behind the filters, and hands on no others', async (t) => {
    const { events } = recorded('15');
    const filtered = events.map((event) => ({
      ...event,
      meta_info: {
        ...event.meta_info,
        output_token_sampling_logprobs: event.output_ids.map((id) => -id / 1000),
        output_token_sampling_mask: event.output_ids.map((id) => [id, 1]),
      },
    }));
    const fake = await fakeSglang(t, { generate: streaming(eventStream(filtered)) });
    const { got } = await run(fake, { top_p: 0.9, top_k: 40, max_tokens: 5 });
    assert.equal(fake.sent[0]?.['return_sampling_mask'], true);
    assert.deepEqual(
      got.logprobs,
      got.token_ids.map((id) => -id / 1000),
    );
  });
});

describe('an end of sequence', () => {
  for (const [what, matched, expected] of [
    ['that the request does not name has no stop reason', 5, null],
    ['that it names as a stop token is one', 2, 2],
  ] as const)
    test(what, async (t) => {
      const meta_info = {
        prompt_tokens: 7,
        completion_tokens: 1,
        output_token_logprobs: [[-1, matched, null]],
        finish_reason: { type: 'stop', matched },
      };
      const raw = eventStream([{ output_ids: [matched], meta_info }]);
      const { end } = await run(await fakeSglang(t, { generate: streaming(raw) }));
      assert.deepEqual([end.finish_reason, end.stop_reason], ['stop', expected]);
    });
});

describe('an error of SGLang', () => {
  const [first, second] = recorded('15').events as [Event, Event];
  const ending = (finish_reason: object, output_ids = [0]): object => ({
    output_ids,
    meta_info: { ...second.meta_info, prompt_tokens: 1, completion_tokens: 1, finish_reason },
  });
  const plain = JSON.stringify({ error: { message: 'no such thing' } });
  const inside = { error: { message: 'no such thing', type: 'invalid_request_error', code: 400 } };
  const cases = [
    ['with its status', 'GenerationRejected', /400 no such thing$/, 0, reply(400, plain)],
    [
      'as an event',
      'GenerationRejected',
      /400 no such thing$/,
      0,
      streaming(eventStream([inside])),
    ],
    [
      'as an end with an id that is no token',
      'GenerationRejected',
      /400 no such thing$/,
      0,
      streaming(
        eventStream([ending({ type: 'abort', message: 'no such thing', status_code: 400 })]),
      ),
    ],
    [
      'as such an end that will pass',
      'GenerationUnavailable',
      /too busy$/,
      1,
      streaming(
        eventStream([first, ending({ type: 'abort', message: 'too busy', status_code: 503 })]),
      ),
    ],
    [
      'as a token that it could not sample',
      'GenerationUnavailable',
      /NaN happened$/,
      1,
      streaming(eventStream([first, ending({ type: 'stop', matched: 'NaN happened' })])),
    ],
    [
      'as an abort',
      'GenerationUnavailable',
      /aborted the request after 2 tokens$/,
      2,
      streaming(
        eventStream([
          first,
          {
            ...second,
            meta_info: { ...second.meta_info, finish_reason: { type: 'abort', status_code: null } },
          },
        ]),
      ),
    ],
    [
      'as an end that does not count its prompt',
      'ProtocolError',
      /prompt_tokens/,
      1,
      streaming(
        eventStream([
          first,
          { ...second, meta_info: { ...second.meta_info, prompt_tokens: undefined } },
        ]),
      ),
    ],
    [
      'as a logprob of another id',
      'ProtocolError',
      /output_token_logprobs\.0: expected id \d+, got 7$/,
      1,
      streaming(
        eventStream([
          first,
          { ...second, meta_info: { ...second.meta_info, output_token_logprobs: [[-1, 7, null]] } },
        ]),
      ),
    ],
  ] as const;
  for (const [how, type, message, tokens, generate] of cases)
    test(`${how} is a fault, and only what it sampled is handed on`, async (t) => {
      const { service } = await fakeSglang(t, { generate });
      const { got, onDelta } = collector();
      const running = service.generate(PLAIN, { signal: untilAborted(), onDelta });
      await assertFault(running, { type, message, at: service.replica });
      assert.equal(got.token_ids.length, tokens);
    });

  test('that cuts a request off says which weights sampled what came', async (t) => {
    const weight_versions = [{ version: 'v1', start: 0, end: 2 }];
    const finish_reason = { type: 'abort', message: 'Aborted', status_code: null };
    const meta_info = { ...second.meta_info, finish_reason, weight_versions };
    const generate = streaming(eventStream([first, { ...second, meta_info }]));
    await assert.rejects(run(await fakeSglang(t, { generate })), (error) => {
      assert.ok(error instanceof CutOff, String(error));
      assert.deepEqual(error.spans, weight_versions);
      return true;
    });
  });

  for (const [number, tokens] of [
    ['03', 'all tokens'],
    ['15', 'its last token'],
  ] as const)
    test(`that cuts a request off while it waits says ${tokens} once more, which count once`, async (t) => {
      const [one, two] = recorded(number).events;
      const { token_ids } = tokensIn([one!, two!]);
      const scores = token_ids.map((id) => [-1, id, null]);
      const last = {
        ...two,
        meta_info: {
          ...two!.meta_info,
          prompt_tokens: undefined,
          finish_reason: { type: 'abort', message: 'Abort in waiting queue' },
          output_token_logprobs: scores,
          weight_versions: [
            { version: 'v1', start: 0, end: 2 },
            { version: 'v2', start: 2, end: 3 },
          ],
        },
      };
      const { service } = await fakeSglang(t, {
        generate: streaming(eventStream([one, two, last])),
      });
      const { got, onDelta } = collector();
      const running = service.generate(PLAIN, { signal: untilAborted(), onDelta });
      await assert.rejects(running, (error) => {
        assert.ok(error instanceof CutOff, String(error));
        assert.equal(error.type, 'GenerationUnavailable');
        assert.deepEqual(error.spans, [{ version: 'v1', start: 0, end: 2 }]);
        return true;
      });
      assert.deepEqual(got.token_ids, token_ids);
    });

  test('for a length is an empty answer where the prompt is too long, else a shorter one', async (t) => {
    const generate = async (exchange: Exchange): Promise<void> => {
      const { max_new_tokens } = (exchange.body as { sampling_params: { max_new_tokens: number } })
        .sampling_params;
      const answer = max_new_tokens === 5 ? streaming(recorded('15').raw) : reply(400, plain);
      await answer(exchange);
    };
    const fake = await fakeSglang(t, { generate });
    const ids = (count: number): number[] => Array.from({ length: count }, () => 7);
    const full = await run(fake, { prompt_ids: ids(2042), max_tokens: 2000 });
    assert.deepEqual([full.end.finish_reason, full.got.token_ids.length], ['length', 0]);
    const sized = {
      settings: { max_req_input_len: 8 },
      models: [{ ...LIST[0], max_model_len: 14 }],
    };
    const { got } = await run(await fakeSglang(t, { generate, ...sized }), { max_tokens: 2000 });
    assert.equal(got.token_ids.length, 5);
  });
});

describe('what would harm an SGLang', () => {
  for (const [where, id] of [
    ['above', 600],
    ['below', -1],
  ] as const)
    test(`never leaves: an id ${where} its vocabulary`, async (t) => {
      const { service, sent } = await fakeSglang(t);
      const prompt_ids = [1, id];
      const message = new RegExp(`prompt id 1: expected one from 0 to 599, .* got ${id}$`);
      const expected = { type: 'GenerationRejected', message, at: service.replica } as const;
      const signal = untilAborted();
      await assertFault(
        service.generate({ ...PLAIN, prompt_ids }, { signal, ...collector() }),
        expected,
      );
      await assertFault(service.promptLogprobs({ model: 'tiny', prompt_ids }, signal), expected);
      assert.deepEqual(sent, []);
    });
});
