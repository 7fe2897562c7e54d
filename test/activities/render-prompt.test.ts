import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  lengthWithin,
  renderPrompt,
  splitRendering,
} from '../../src/activities/start/render-prompt.js';
import type { ChatMessage } from '../../src/generation/generation-service.js';
import { Fault } from '../../src/model/faults.js';
import type { Message } from '../../src/model/sample.js';
import { GENERATION } from '../fakes/journal-lines.js';
import type { ScriptedService } from '../fakes/scripted-service.js';
import { idsOf, scriptedService } from '../fakes/scripted-service.js';

const MESSAGES: Message[] = [
  { role: 'system', content: 'be' },
  { role: 'user', content: 'brief' },
];

function render(
  messages: Message[],
  {
    service = scriptedService([]),
    generation = {},
    check = () => undefined,
  }: {
    service?: ScriptedService;
    generation?: Partial<typeof GENERATION>;
    check?: (tokens: number) => void;
  } = {},
) {
  return renderPrompt(messages, {
    service,
    generation: { ...GENERATION, ...generation },
    signal: new AbortController().signal,
    check,
  });
}

describe('a prompt that brings its ids', () => {
  test('is used as it is, logprobs included, without a request to the service', async () => {
    const messages: Message[] = [
      { role: 'user', content: 'anything', token_ids: [1, 2] },
      { role: 'assistant', content: '', token_ids: [], generation_logprobs: [] },
      { role: 'assistant', content: 'x', token_ids: [3], generation_logprobs: [-0.5] },
    ];
    const service = scriptedService([]);
    assert.deepEqual(await render(messages, { service }), messages);
    assert.deepEqual([service.asked.renderChat, service.asked.tokenize], [0, 0]);
  });
});

describe('a chat prompt', () => {
  test('gives message k the ids that rendering messages 0 to k adds, the last one the generation prompt', async () => {
    const [system, user, ...more] = await render(MESSAGES);
    assert.deepEqual(system, { ...MESSAGES[0], token_ids: idsOf('systembe') });
    assert.deepEqual(user, { ...MESSAGES[1], token_ids: [...idsOf('userbrief'), 7001, 7002] });
    assert.deepEqual(more, []);
  });

  test('that is too long is one rendering, however many messages it has', async () => {
    const service = scriptedService([]);
    const check = (tokens: number): void => {
      if (tokens >= 8) throw new Error(`${tokens} tokens`);
    };
    const many = Array<Message>(1000).fill({ role: 'user', content: 'brief' });
    await assert.rejects(render(many, { service, check }), /^Error: \d+ tokens$/);
    assert.equal(service.asked.renderChat, 1);
  });

  test('of one message is one rendering', async () => {
    const service = scriptedService([]);
    const [only] = await render(MESSAGES.slice(1), { service });
    assert.deepEqual(only?.token_ids, [...idsOf('userbrief'), 7001, 7002]);
    assert.equal(service.asked.renderChat, 1);
  });

  const refusing = (status: number) => {
    const service = scriptedService([]);
    return {
      ...service,
      renderChat: async (...given: Parameters<typeof service.renderChat>) => {
        if (given[0].messages.some(({ role }) => role === 'user'))
          return await service.renderChat(...given);
        throw new Fault({ type: 'GenerationRejected', message: 'No user query found', status });
      },
    };
  };

  test('is anchored at its last message if the template refuses the earlier ones alone', async () => {
    const [system, user] = await render(MESSAGES, { service: refusing(400) });
    assert.deepEqual(system?.token_ids, []);
    assert.deepEqual(user?.token_ids, [...idsOf('systembe'), ...idsOf('userbrief'), 7001, 7002]);
  });

  test('is not, if the engine denies its route, model or key', async () => {
    for (const status of [401, 404])
      await assert.rejects(render(MESSAGES, { service: refusing(status) }), { status });
  });

  test('is anchored at its last message if the template rewrites earlier ones', async () => {
    const service = scriptedService([]);
    const rewriting = {
      ...service,
      // As templates do that drop the thoughts of all but the last message.
      renderChat: ({ messages }: { messages: readonly ChatMessage[] }) =>
        Promise.resolve([messages.length, ...messages.map(({ content }) => content.length)]),
    };
    const [system, user] = await render(MESSAGES, { service: rewriting });
    assert.deepEqual(system?.token_ids, []);
    assert.deepEqual(user?.token_ids, [2, 2, 5]);
  });

  test('of many messages is rendered a few at a time: each request has all messages before its own', async () => {
    const service = scriptedService([]);
    let open = 0;
    let most = 0;
    const counting = {
      ...service,
      renderChat: async (...given: Parameters<typeof service.renderChat>) => {
        most = Math.max(most, ++open);
        await new Promise((resolve) => setImmediate(resolve));
        open -= 1;
        return service.renderChat(...given);
      },
    };
    const messages = Array.from({ length: 500 }, (_, k) => ({ role: 'user', content: `${k}` }));
    const rendered = await render(messages, { service: counting });
    assert.deepEqual(rendered[499]?.token_ids, [...idsOf('user499'), 7001, 7002]);
    assert.deepEqual(rendered[7]?.token_ids, idsOf('user7'));
    assert.ok(most <= 8, `${most} at once`);
  });

  test('is rendered by the model and with the arguments of the request', async () => {
    const asked: unknown[] = [];
    const service = scriptedService([]);
    const recording = {
      ...service,
      renderChat: (...given: Parameters<typeof service.renderChat>) => {
        asked.push(given[0]);
        return Promise.resolve([1]);
      },
    };
    const chat_template_kwargs = { enable_thinking: false };
    await render(MESSAGES, {
      service: recording,
      generation: { model: 'm', chat_template_kwargs },
    });
    const [system, user] = MESSAGES;
    assert.deepEqual(asked, [
      { model: 'm', messages: [system, user], add_generation_prompt: true, chat_template_kwargs },
      { model: 'm', messages: [system], add_generation_prompt: false, chat_template_kwargs },
    ]);
  });
});

describe('a raw prompt', () => {
  test('encodes each content alone, with the tokenizer’s own beginning on the first only', async () => {
    const service = scriptedService([]);
    const rendered = await render(MESSAGES, { service, generation: { prompt_format: 'raw' } });
    assert.deepEqual(
      rendered.map(({ token_ids }) => token_ids),
      [[7000, ...idsOf('be')], idsOf('brief')],
    );
    assert.equal(service.asked.renderChat, 0);
  });

  const bos = String.fromCodePoint(7000);
  const texts: [what: string, content: string, ids: number[]][] = [
    ['brings the tokenizer’s beginning', `${bos}be`, [7000, ...idsOf('be')]],
    ['is the tokenizer’s beginning alone', bos, [7000]],
    ['brings two of them', `${bos}${bos}be`, [7000, 7000, ...idsOf('be')]],
    ['has it later', `be${bos}${bos}`, [7000, ...idsOf('be'), 7000, 7000]],
    ['begins with one character twice', 'ee', [7000, ...idsOf('ee')]],
    ['is empty', '', [7000]],
  ];
  for (const [what, content, ids] of texts)
    test(`whose text ${what} has no beginning more than it would`, async () => {
      const generation = { prompt_format: 'raw' as const };
      const [first, second] = await render(
        [
          { role: 'user', content },
          { role: 'user', content: bos },
        ],
        { generation },
      );
      assert.deepEqual([first?.token_ids, second?.token_ids], [ids, [7000]]);
    });

  test('of a tokenizer without a beginning keeps a repeated first token', async () => {
    const service = {
      ...scriptedService([]),
      tokenize: ({ text }: { text: string }) => Promise.resolve(idsOf(text)),
    };
    const generation = { prompt_format: 'raw' as const };
    const [only] = await render([{ role: 'user', content: 'eee' }], { service, generation });
    assert.deepEqual(only?.token_ids, idsOf('eee'));
  });
});

/** By the renderings of messages 0…k. */
function split(renderings: readonly number[][]): number[][] {
  const whole = renderings.at(-1) ?? [];
  return splitRendering(
    whole,
    renderings.map((ids) => lengthWithin(whole, ids)),
  );
}

describe('splitRendering', () => {
  const cases: [string, number[][], number[][]][] = [
    ['nothing', [], []],
    ['one message', [[1, 2]], [[1, 2]]],
    ['messages that grow', [[1], [1, 2, 3], [1, 2, 3, 4]], [[1], [2, 3], [4]]],
    ['a message that adds nothing', [[1], [1], [1, 2]], [[1], [], [2]]],
    ['a first message that changes', [[9], [1, 2], [1, 2, 3]], [[], [], [1, 2, 3]]],
    ['a later message that changes', [[1], [1, 9], [1, 2, 3]], [[], [], [1, 2, 3]]],
    [
      'a rendering longer than the whole',
      [
        [1, 2, 3],
        [1, 2],
      ],
      [[], [1, 2]],
    ],
    ['a rendering that shrinks in between', [[1, 2], [1], [1, 2, 3]], [[], [], [1, 2, 3]]],
  ];
  for (const [what, renderings, expected] of cases) {
    test(`of ${what}`, () => {
      assert.deepEqual(split(renderings), expected);
    });
  }

  test('whatever the renderings, the parts are the whole', () => {
    const ids = fc.array(fc.nat({ max: 2 }), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(ids, { minLength: 1, maxLength: 5 }), (renderings) => {
        const parts = split(renderings);
        assert.equal(parts.length, renderings.length);
        assert.deepEqual(parts.flat(), renderings.at(-1));
      }),
    );
  });
});
