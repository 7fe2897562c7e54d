import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { encode, PICTURE } from '../../simulator/policy/tokenizer.js';
import { expand } from '../../simulator/wire/pictures.js';
import type { Chat, GenerationRequest } from '../../src/generation/generation-service.js';
import { folded } from '../../src/generation/vllm/generate-wire.js';
import type { Place, PlacedPicture } from '../../src/model/pictures.js';
import { simulator } from '../simulator/client.js';
import { pictureOf } from '../fakes/pictures.js';
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
} from './fake-vllm.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';

const RENDER = 'POST /v1/chat/completions/render';
const GENERATE = 'POST /inference/v1/generate';

const RED = pictureOf({ width: 56, height: 56, colour: [255, 0, 0] });
const BLUE = pictureOf({ width: 84, height: 56, colour: [0, 0, 255] });

const chatOf = (model: string, ...urls: string[]): Chat => ({
  model,
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'see' },
        ...urls.map((url) => ({ type: 'image_url' as const, image_url: { url } })),
      ],
    },
  ],
  add_generation_prompt: true,
  chat_template_kwargs: {},
});

const withUrls = (places: readonly Place[], urls: readonly string[]): PlacedPicture[] =>
  places.map((place, i) => ({ ...place, url: urls[i]! }));

async function simulated(scale_out: boolean) {
  const { url } = await simulator({ model: 'tiny', scale_out });
  return createVllmService({
    base_url: `${url}/v1`,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
  });
}

/** What the capture's engine was asked for, and which of its ids it said stand for pictures. */
function recorded() {
  const { raw, body } = capture('238');
  const { prompt_token_ids, mm_placeholders } = JSON.parse(raw) as {
    prompt_token_ids: number[];
    mm_placeholders: { image: Place[] };
  };
  const { token_ids: sent } = body as { token_ids: number[] };
  return { sent, ids: prompt_token_ids, places: mm_placeholders.image };
}

/** The recorded stream's own request. */
function streamRequest(): GenerationRequest {
  const { ids, places } = recorded();
  return {
    ...REQUEST,
    prompt_ids: ids,
    max_tokens: 5,
    stop_strings: [],
    pictures: withUrls(places, [RED, BLUE]),
  };
}

/** An engine that answers the probe as one that knows pictures does, with the recorded ids. */
const PROBED = {
  [RENDER]: (exchange: Parameters<ReturnType<typeof reply>>[0]) => {
    const { ids, places } = probeRendering();
    const features = { mm_placeholders: { image: places } };
    return reply(200, JSON.stringify({ token_ids: ids, features }))(exchange);
  },
};
const probeRendering = () => ({
  ids: [5, 602, 602, 602, 602, 6],
  places: [{ offset: 1, length: 4 }],
});

describe('pictures together with ids', () => {
  test('are sent with one placeholder each, and the engine says which ids it has made of them', async (t) => {
    const { raw } = capture('239');
    const asked: unknown[] = [];
    const { service, exchanges } = await fakeVllm(t, {
      ...PROBED,
      [GENERATE]: (exchange) => {
        asked.push(exchange.body);
        const { stream } = exchange.body as { stream?: boolean };
        const probe = { prompt_token_ids: probeRendering().ids, choices: [] };
        return (stream === true ? streaming(raw) : reply(200, JSON.stringify(probe)))(exchange);
      },
    });
    const { got, onDelta } = collector();
    const request = streamRequest();
    const end = await service.generate(request, { signal: untilAborted(), onDelta });
    assert.equal(end.finish_reason, 'length');
    assert.equal(got.token_ids.length, 5);
    const sent = asked.at(-1) as { token_ids: number[]; content_parts: object[] };
    assert.deepEqual(
      sent.token_ids,
      folded(request.prompt_ids, { places: request.pictures!, placeholder: [602] }),
    );
    assert.deepEqual(
      sent.content_parts,
      [RED, BLUE].map((url) => ({ type: 'image_url', url })),
    );
    assert.equal(sent.token_ids.filter((id) => id === 602).length, 2);
    assert.equal(service.tells_text!(request), false);
    assert.equal(service.tells_text!(), true);
    const routes = exchanges.map(({ route }) => route);
    assert.deepEqual(routes, [RENDER, GENERATE, GENERATE]);
  });

  test('fold to what the recorded engine was sent', () => {
    const { sent, ids, places } = recorded();
    assert.deepEqual(folded(ids, { places, placeholder: [602] }), sent);
  });

  for (const [what, number] of [
    ['that has expanded a picture twice', '241'],
    ['that has a placeholder without its picture', '242'],
  ] as const)
    test(`break the protocol before a token is taken where the engine names a prompt ${what}`, async (t) => {
      const { prompt_token_ids } = JSON.parse(capture(number).raw) as {
        prompt_token_ids: number[];
      };
      const own = JSON.stringify(recorded().ids);
      const raw = capture('239').raw;
      assert.ok(raw.includes(own));
      const wrong = raw.replace(own, JSON.stringify(prompt_token_ids));
      await breaks(t, { raw: wrong, message: /prompt echo: expected 31 ids/ });
    });

  test('break the protocol where the engine does not name its prompt', async (t) => {
    const raw = capture('239').raw.replace(/"prompt_token_ids":\[[^\]]*\],/, '');
    const message = /expected the ids of the prompt with its pictures first, got none/;
    await breaks(t, { raw, message });
  });

  async function breaks(
    t: Parameters<typeof fakeVllm>[0],
    { raw, message }: { raw: string; message: RegExp },
  ) {
    const { service, base_url } = await fakeVllm(t, {
      ...PROBED,
      [GENERATE]: (exchange) => {
        const { stream } = exchange.body as { stream?: boolean };
        const probe = { prompt_token_ids: probeRendering().ids, choices: [] };
        return (stream === true ? streaming(raw) : reply(200, JSON.stringify(probe)))(exchange);
      },
    });
    const { got, onDelta } = collector();
    const asking = service.generate(streamRequest(), { signal: untilAborted(), onDelta });
    await assertFault(asking, { type: 'ProtocolError', message, at: base_url });
    assert.deepEqual(got.token_ids, []);
  }

  test('are rendered as the recorded engine renders them', async (t) => {
    const { service, exchanges } = await fakeVllm(t, { [RENDER]: replay('237') });
    const chat = chatOf('tiny', RED, BLUE);
    const rendering = await service.pictures!.render(chat, untilAborted());
    const { ids, places } = recorded();
    assert.deepEqual(rendering, { token_ids: ids, places });
    const { mm_payload } = exchanges[0]?.body as { mm_payload: unknown };
    assert.equal(mm_payload, 'none');
  });

  test('are a ProtocolError where the engine places fewer of them than the messages have', async (t) => {
    const { service, base_url } = await fakeVllm(t, { [RENDER]: replay('237') });
    const asking = service.pictures!.render(chatOf('tiny', RED, BLUE, RED), untilAborted());
    const message = /mm_placeholders.image: expected 3, one per picture, got 2/;
    await assertFault(asking, { type: 'ProtocolError', message, at: base_url });
  });
});

describe('whether an engine takes pictures', () => {
  for (const [what, script, reason] of [
    ['one without scale-out', { [RENDER]: replay('203') }, /--enable-scale-out/],
    [
      'one without the route',
      { [RENDER]: reply(404, '{"detail":"Not Found"}') },
      /Not Found.*--enable-scale-out/,
    ],
    [
      'a model of texts alone',
      {
        [RENDER]: reply(
          400,
          '{"error":{"message":"At most 0 image(s) may be provided in one prompt.","code":400}}',
        ),
      },
      /model tiny takes no pictures: 400 At most 0 image/,
    ],
    [
      'one that does not know content_parts',
      {
        ...PROBED,
        [GENERATE]: reply(200, '{"request_id":"a","choices":[{"index":0,"token_ids":[7]}]}'),
      },
      /expected prompt_token_ids.*[Tt]his version of vLLM takes no pictures with ids/,
    ],
    [
      'one whose placeholder is none of the ids that it becomes',
      { ...PROBED, [GENERATE]: reply(200, '{"prompt_token_ids":[1,2,3],"choices":[]}') },
      /expected a chat template that writes one id for a picture/,
    ],
  ] as const)
    test(`is told by name: ${what}`, async (t) => {
      const { service } = await fakeVllm(t, script);
      assert.match((await service.pictures!.refusal('tiny', untilAborted())) ?? '', reason);
    });

  test('is unknown while it breaks on everything, so it is asked again', async (t) => {
    const { service, base_url } = await fakeVllm(t, { ...PROBED, [GENERATE]: replay('240') });
    const asking = service.pictures!.refusal('tiny', untilAborted());
    await assertFault(asking, {
      type: 'GenerationUnavailable',
      message: /Failed to apply prompt replacement/,
      at: base_url,
    });
  });

  test('is found on the simulator, which says what it lacks without scale-out', async () => {
    const [able, plain] = [await simulated(true), await simulated(false)];
    assert.equal(await able.pictures!.refusal('tiny', untilAborted()), null);
    assert.match((await plain.pictures!.refusal('tiny', untilAborted()))!, /--enable-scale-out/);
    await Promise.all([able.close(), plain.close()]);
  });
});

describe('pictures on the simulator', () => {
  test('are generated from, wherever the log is cut', async () => {
    const service = await simulated(true);
    const { token_ids, places } = await service.pictures!.render(
      chatOf('tiny', RED, BLUE),
      untilAborted(),
    );
    const pictures = withUrls(places, [RED, BLUE]);
    for (const more of [[], encode('so far')]) {
      const prompt_ids = [...token_ids, ...more];
      const { got, onDelta } = collector();
      const request = {
        ...REQUEST,
        prompt_ids,
        pictures,
        stop_strings: [],
        repetition_penalty: 1,
        presence_penalty: 0,
        frequency_penalty: 0,
      };
      await service.generate(request, { signal: untilAborted(), onDelta });
      assert.ok(got.token_ids.length > 0);
    }
    await service.close();
  });

  test('of other sizes than the log has are refused', async () => {
    const service = await simulated(true);
    const { token_ids, places } = await service.pictures!.render(
      chatOf('tiny', RED),
      untilAborted(),
    );
    const pictures = withUrls(places, [otherLength(places[0]!.length)]);
    const request = {
      ...REQUEST,
      prompt_ids: token_ids,
      pictures,
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
    };
    const asking = service.generate(request, { signal: untilAborted(), ...collector() });
    await assertFault(asking, {
      type: 'ProtocolError',
      message: /prompt echo/,
      at: service.replica,
    });
    await service.close();
  });

  /** A picture that becomes another number of ids. */
  function otherLength(length: number): string {
    for (let width = 1; ; width++) {
      const url = pictureOf({ width, height: 1, colour: [0, 0, 0] });
      if (expand([PICTURE], [url]).places[0]!.length !== length) return url;
    }
  }

  test('of an observation are placed within the ids that follow the answer', async () => {
    const service = await simulated(true);
    const [message] = chatOf('tiny', RED, BLUE).messages;
    const turn = { model: 'tiny', message: message!, chat_template_kwargs: {} };
    const { token_ids, places } = await service.pictures!.renderTurn(turn, untilAborted());
    assert.deepEqual(token_ids, await service.renderTurn(turn, untilAborted()));
    assert.equal(places.length, 2);
    for (const { offset, length } of places)
      assert.ok(token_ids.slice(offset, offset + length).every((id) => id === PICTURE));
    const count = token_ids.filter((id) => id === PICTURE).length;
    assert.equal(
      count,
      places.reduce((sum, { length }) => sum + length, 0),
    );
    await service.close();
  });

  test('fold in a prompt that is longer than a call takes arguments', () => {
    const ids = Array.from({ length: 300_000 }, () => 7);
    const places = [{ offset: 250_000, length: 1000 }];
    assert.equal(folded(ids, { places, placeholder: [PICTURE] }).length, 299_001);
  });

  test('what an engine expands folds to what it was sent', () => {
    const texts = fc.array(fc.oneof(fc.constant(PICTURE), fc.nat(255)), { maxLength: 60 });
    fc.assert(
      fc.property(texts, fc.nat(), (ids, seed) => {
        const count = ids.filter((id) => id === PICTURE).length;
        const urls = Array.from({ length: count }, (_, i) => `data:,${seed + i}`);
        const { token_ids, places } = expand(ids, urls);
        assert.deepEqual(folded(token_ids, { places, placeholder: [PICTURE] }), ids);
      }),
    );
  });
});
