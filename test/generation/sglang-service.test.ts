import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { GenerationRequest } from '../../src/generation/generation-service.js';
import type { GenerationSettings } from '../../src/model/batch-request.js';
import { Miscount } from '../../src/generation/generation-service.js';
import { createEventReader } from '../../src/generation/sglang/answer-events.js';
import { createSglangService } from '../../src/generation/sglang/sglang-service.js';
import type { StreamState } from '../../src/generation/wire/stream-assembler.js';
import {
  assembleKnown,
  isCounted,
  startStream,
} from '../../src/generation/wire/stream-assembler.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { sendJson } from '../servers/json-server.js';
import { eventStream } from './captures.js';
import type { Exchange } from './fake-vllm.js';
import {
  assertFault,
  collector,
  fakeVllm,
  reply,
  REQUEST,
  streaming,
  untilAborted,
} from './fake-vllm.js';

const FOLDER = new URL('../captures/sglang-0.5.23/', import.meta.url);

interface Event {
  output_ids: number[];
  meta_info: {
    completion_tokens: number;
    output_token_logprobs: [logprob: number, id: number, text: null][];
    weight_versions?: { version: string; start: number; end: number }[];
  };
}

/** The events of a recorded stream: `02` and `03` of all tokens so far, `15` of new ones. */
function recorded(number: string): { raw: string; events: Event[] } {
  const file = readdirSync(FOLDER).find((name) => name.startsWith(`${number}-`)) ?? '';
  const { response } = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as {
    response: { sse_chunks_ms_text: [number, string][] };
  };
  const raw = response.sse_chunks_ms_text.map(([, text]) => text).join('');
  const events = raw
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)) as Event);
  return { raw, events };
}

/** Every token of a recorded stream, put together without the code under test. */
function tokensIn(events: readonly Event[]): { token_ids: number[]; logprobs: number[] } {
  const last = events.at(-1)!;
  const isWhole = last.output_ids.length === last.meta_info.completion_tokens;
  const all = (isWhole ? [last] : events).flatMap(
    ({ meta_info }) => meta_info.output_token_logprobs,
  );
  return { token_ids: all.map(([, id]) => id), logprobs: all.map(([logprob]) => logprob) };
}

const SETTINGS = {
  served_model_name: 'tiny',
  version: '0.5.23',
  max_req_input_len: 2042,
  incremental_streaming_output: true,
  grammar_backend: 'none',
  sampling_mask_max_tokens: 4096,
};
const LIST = [{ id: 'tiny', parent: null, max_model_len: 2048, owned_by: 'sglang' }];
const RANGE = { error: { message: 'logit_bias must has keys in [0, 599], got -1.' } };

/** An SGLang that generates in this way, with the answers to all that is asked beside. */
async function fakeSglang(
  t: TestContext,
  {
    generate = streaming(recorded('02').raw),
    settings = {},
    models = LIST,
    more = {},
  }: {
    generate?: (exchange: Exchange) => void | Promise<void>;
    settings?: object;
    models?: object[];
    more?: Record<string, ReturnType<typeof reply>>;
  } = {},
) {
  const sent: Record<string, unknown>[] = [];
  const { service } = await fakeVllm(t, {
    create: createSglangService,
    'GET /server_info': reply(200, JSON.stringify({ ...SETTINGS, ...settings })),
    'GET /v1/models': reply(200, JSON.stringify({ data: models })),
    'POST /generate': async (exchange) => {
      const body = exchange.body as Record<string, unknown>;
      if ('logit_bias' in (body['sampling_params'] as object)) {
        sendJson(exchange.response, { status: 400, body: RANGE });
        return;
      }
      sent.push(body);
      await generate(exchange);
    },
    ...more,
  });
  return { service, sent };
}

/** All tokens are sampled from. */
const PLAIN: GenerationRequest = { ...REQUEST, top_p: 1, top_k: -1, min_p: 0, max_tokens: 4 };

const run = async (
  { service }: Awaited<ReturnType<typeof fakeSglang>>,
  request: Partial<GenerationRequest> = {},
) => {
  const { got, onDelta } = collector();
  const running = service.generate({ ...PLAIN, ...request }, { signal: untilAborted(), onDelta });
  return { got, end: await running };
};

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

  test('for a length is an empty answer where the prompt is too long, else a shorter one', async (t) => {
    const generate = (exchange: Exchange): void => {
      const { max_new_tokens } = (exchange.body as { sampling_params: { max_new_tokens: number } })
        .sampling_params;
      if (max_new_tokens === 5) streaming(recorded('15').raw)(exchange);
      else reply(400, plain)(exchange);
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

describe('what SGLang cannot do', () => {
  const cases: [field: string, given: Partial<Omit<GenerationSettings, 'model'>>][] = [
    ['bad_words', { bad_words: ['no'] }],
    ['repetition_penalty', { repetition_penalty: 3 }],
    ['stop_token_ids', { ignore_eos: true, stop_token_ids: [3] }],
    ['top_k', { top_p: 0.9 }],
    ['top_k', { min_p: 0.1 }],
    ['top_k', { top_k: 5000 }],
    ['top_logprobs', { top_k: 40, top_logprobs: 2 }],
    ['structured_outputs', { structured_outputs: { regex: 'a' } }],
  ];
  for (const [field, given] of cases)
    test(`is refused at planning and in a call: ${field} of ${JSON.stringify(given)}`, async (t) => {
      const { service, sent } = await fakeSglang(t);
      const signal = untilAborted();
      const { refused } = (await service.limits?.({ ...GENERATION, ...given }, signal)) ?? {};
      assert.deepEqual(
        refused?.map((limit) => limit.field),
        [field],
      );
      const running = service.generate({ ...PLAIN, ...given }, { signal, ...collector() });
      const message = new RegExp(`: ${field}: `);
      await assertFault(running, { type: 'GenerationRejected', message, at: service.replica });
      assert.deepEqual(sent, []);
    });

  test('is nothing of what it can: filters without logprobs, greedy ones, structures with a grammar', async (t) => {
    const settings = { grammar_backend: 'xgrammar' };
    const { service } = await fakeSglang(t, { settings });
    for (const given of [
      { top_p: 0.9, include_logprobs: false },
      { top_p: 0.9, greedy: true },
      { top_p: 0.9, top_k: 40 },
      { structured_outputs: { regex: 'a' } },
    ]) {
      const found = await service.limits?.({ ...GENERATION, ...given }, untilAborted());
      assert.deepEqual(found?.refused, []);
    }
  });

  test('is noted, where rows are the same but for it: seeds, and streams that repeat themselves', async (t) => {
    const settings = { incremental_streaming_output: false };
    const { service } = await fakeSglang(t, { settings });
    const found = await service.limits?.({ ...GENERATION, seed: 1 }, untilAborted());
    assert.match(found?.notes.join() ?? '', /^generation\.seed: .*,each event of its streams/);
  });
});

describe('an SGLang is asked', () => {
  test('for the text of special tokens, too, and renders a conversation as it stands', async (t) => {
    const bodies: unknown[] = [];
    const answering =
      (body: object) =>
      (exchange: Exchange): void => {
        bodies.push(exchange.body);
        sendJson(exchange.response, { body });
      };
    const { service } = await fakeSglang(t, {
      more: {
        'POST /detokenize': answering({ text: '<|im_end|>' }),
        'POST /tokenize': answering({ tokens: [1, 2], count: 2, max_model_len: 2048 }),
      },
    });
    const signal = untilAborted();
    assert.equal(await service.detokenize({ model: 'tiny', token_ids: [2] }, signal), '<|im_end|>');
    const chat = {
      model: 'tiny',
      messages: [{ role: 'user', content: 'hi' }],
      add_generation_prompt: false,
      chat_template_kwargs: {},
    };
    assert.deepEqual(await service.renderChat(chat, signal), [1, 2]);
    assert.deepEqual(bodies, [{ model: 'tiny', tokens: [2], skip_special_tokens: false }, chat]);
  });

  test('for the logprobs of a prompt, each named by its id', async (t) => {
    const scored = (ids: readonly number[]) =>
      reply(
        200,
        JSON.stringify({
          meta_info: {
            input_token_logprobs: ids.map((id, i) => [i === 0 ? null : -i, id, null]),
          },
        }),
      );
    const prompt = { model: 'tiny', prompt_ids: [4, 5, 6] };
    const signal = untilAborted();
    const good = await fakeSglang(t, { generate: scored([4, 5, 6]) });
    assert.deepEqual(await good.service.promptLogprobs(prompt, signal), [-1, -2]);
    const { service } = await fakeSglang(t, { generate: scored([4, 6, 5]) });
    await assertFault(service.promptLogprobs(prompt, signal), {
      type: 'ProtocolError',
      message: /input_token_logprobs\.1: expected the logprob of id 5, got -1 of id 6$/,
      at: service.replica,
    });
  });

  test('whether it is paused without being made to generate', async (t) => {
    for (const [status, expected] of [
      [200, false],
      [503, true],
      [404, false],
    ] as const) {
      const { service } = await fakeSglang(t, { more: { 'GET /ready': reply(status, '') } });
      assert.equal(await service.isPaused(), expected);
    }
  });
});

describe('events that are repeated, lost or late', () => {
  /** What is handed on of them. */
  function handedOn(events: readonly Event[]): { ids: number[]; error: unknown } {
    const site = { replica: 'r', call: 'c' };
    const request = { ...PLAIN, max_tokens: 1000 };
    const read = createEventReader(request, site);
    let state: StreamState = startStream({ ...request, site });
    const ids: number[] = [];
    const waiting: number[] = [];
    try {
      for (const event of events) {
        const step = assembleKnown(state, read(event));
        ({ state } = step);
        waiting.push(...(step.delta?.token_ids ?? []));
        if (isCounted(state)) ids.push(...waiting.splice(0));
      }
    } catch (error) {
      return { ids, error };
    }
    return { ids, error: null };
  }

  for (const [number, what] of [
    ['03', 'all tokens so far'],
    ['15', 'new tokens alone'],
  ] as const)
    test(`of ${what} are a miscount, or harmless: each token handed on is where it was sampled`, () => {
      const { events } = recorded(number);
      const { token_ids } = tokensIn(events);
      assert.deepEqual(handedOn(events), { ids: token_ids, error: null });
      const at = fc.integer({ min: 0, max: events.length - 1 });
      let noticed = 0;
      fc.assert(
        fc.property(fc.constantFrom('repeats', 'loses', 'delays', 'moves'), at, at, (how, i, k) => {
          const one = events[i]!;
          const rest = events.toSpliced(i, 1);
          const meddled = {
            repeats: events.toSpliced(i, 0, one),
            loses: rest,
            delays: rest.toSpliced(i + 1, 0, one),
            moves: rest.toSpliced(k, 0, one),
          }[how];
          const { ids, error } = handedOn(meddled);
          assert.deepEqual(ids, token_ids.slice(0, ids.length));
          if (error !== null) noticed += 1;
          // Behind its end there is nothing.
          assert.ok(
            error === null || error instanceof Miscount || /finish_reason/.test(String(error)),
            String(error),
          );
        }),
      );
      assert.ok(noticed > 0);
    });
});
