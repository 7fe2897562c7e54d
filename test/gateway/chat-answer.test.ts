/** Answers in the words of chat completions: a stream says what the whole says, as the official client reads both. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import fc from 'fast-check';
import OpenAI from 'openai';
import {
  chatCompletion,
  createChatStream,
  finishOf,
  KEEP_ALIVE,
} from '../../src/gateway/chat-answer.js';
import { newsIn, readAnswer, saidIn } from '../../src/model/calls/parsers/read-answer.js';

const PARSERS = { tool_parser: 'hermes', reasoning_parser: 'qwen3' } as const;
const HEAD = { id: 'chatcmpl-b/0-0.3', created: 1_700_000_000, model: 'policy' };
const USAGE = { prompt_tokens: 7, completion_tokens: 5 };
const NOTHING = { content: '', calls: [] };

/** Texts that policies write. */
const part = fc.constantFrom(
  '<think>\n',
  '</think>\n\n',
  'It is é 🧩. ',
  '<tool_call>\n{"name": "run", "arguments": {"command": "ls \\"a\\""}}\n</tool_call>',
  '<tool_call>\n{"name": "read", "arguments": {}}\n</tool_call>\n',
  '<tool_call>\nno JSON\n</tool_call>',
  '\n',
  '<',
);
const text = fc.array(part, { maxLength: 8 }).map((parts) => parts.join(''));

function streamed(whole: string, cuts: readonly number[]): string {
  const stream = createChatStream(HEAD, { turn: 3, include_usage: true });
  const said = saidIn(whole, { turn: 3, ...PARSERS });
  let before: Parameters<typeof newsIn>[0] = NOTHING;
  const events = [stream.begin(), KEEP_ALIVE];
  for (const cut of [
    ...cuts.filter((at) => at < whole.length).sort((a, b) => a - b),
    whole.length,
  ]) {
    const after = readAnswer(whole.slice(0, cut), { ...PARSERS, ended: cut === whole.length });
    events.push(stream.news(newsIn(before, after)), KEEP_ALIVE);
    before = after;
  }
  return [...events, stream.end({ finish: finishOf(said, 'stop'), usage: USAGE })].join('');
}

/** The official client against these bytes. */
async function clientOf(
  t: TestContext,
): Promise<{ client: OpenAI; answer: (body: string) => void }> {
  let body = '';
  const server = createServer((request, response) => {
    request.resume();
    const type = body.startsWith('data:') ? 'text/event-stream' : 'application/json';
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'k', maxRetries: 0 });
  return {
    client,
    answer: (given) => {
      body = given;
    },
  };
}

describe('a stream', () => {
  test('says what the whole answer says, however the text was cut', async (t) => {
    const { client, answer } = await clientOf(t);
    const asked = { model: 'policy', messages: [] };
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat(200), { maxLength: 6 }), async (whole, cuts) => {
        const said = saidIn(whole, { turn: 3, ...PARSERS });
        const finish = finishOf(said, 'stop');
        answer(JSON.stringify(chatCompletion(HEAD, { said, finish, usage: USAGE })));
        const { data } = await client.chat.completions.create(asked).withResponse();
        answer(streamed(whole, cuts));
        const events = client.chat.completions.stream(asked);
        const read = await events.finalChatCompletion();
        const [one, other] = [data.choices[0], read.choices[0]];
        assert.equal(other?.finish_reason, one?.finish_reason);
        assert.equal(other?.message.content ?? '', one?.message.content ?? '');
        assert.deepEqual(
          (other?.message.tool_calls ?? []).map(plainCall),
          (one?.message.tool_calls ?? []).map(plainCall),
        );
        assert.deepEqual([read.id, read.created, read.usage], [data.id, data.created, data.usage]);
      }),
      { numRuns: 150 },
    );
  });

  test('has no usage where it was not asked for', () => {
    const stream = createChatStream(HEAD, { turn: 0, include_usage: false });
    const events = stream.begin() + stream.end({ finish: 'stop', usage: USAGE });
    assert.doesNotMatch(events, /usage/);
    assert.ok(events.endsWith('data: [DONE]\n\n'));
  });
});

describe('an answer', () => {
  test('that calls tools ends for them, unless its room ended', () => {
    const said = { tool_calls: [{ id: 'call_0_0', name: 'run', arguments: '{}' }] };
    assert.equal(finishOf(said, 'stop'), 'tool_calls');
    assert.equal(finishOf(said, 'length'), 'length');
    assert.equal(finishOf({ tool_calls: [] }, 'stop'), 'stop');
  });

  test('has its thoughts under both names that clients know', () => {
    const said = saidIn('<think>\nso\n</think>\n\nyes', { turn: 0, ...PARSERS });
    const body = JSON.stringify(chatCompletion(HEAD, { said, finish: 'stop', usage: USAGE }));
    assert.match(body, /"reasoning_content":"so","reasoning":"so"/);
  });
});

const plainCall = (call: { id: string; type: string; function?: object }): object => ({
  id: call.id,
  type: call.type,
  ...(call.function !== undefined && {
    function: {
      name: (call.function as { name: string }).name,
      arguments: (call.function as { arguments: string }).arguments,
    },
  }),
});
