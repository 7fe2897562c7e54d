/** Answers as the official client reads them: a stream says what the whole says. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import fc from 'fast-check';
import OpenAI from 'openai';
import {
  completion,
  firstEvent,
  lastEvents,
  newsEvents,
} from '../../src/gateway/dialects/chat/chat-answer.js';
import type { JournalCall } from '../../src/model/journal/calls.js';
import { callId, readAnswer, saidIn } from '../../src/model/calls/parsers/read-answer.js';
import { newsIn } from './news-in.js';

const PARSERS = { tool_parser: 'hermes', reasoning_parser: 'qwen3' } as const;
const TURN = 3;
const NOTHING = { content: '', calls: [] };

/** A call whose answer is this text. */
function answering(text: string, asked: JournalCall['line']['asked'] = { include_usage: true }) {
  const at = 1_700_000_000.5;
  const call = {
    line: { kind: 'call', at, turn: TURN, asked } as JournalCall['line'],
    from: null,
    prompt_length: 7,
    sampled: {
      token_ids: [1, 2, 3, 4, 5],
      generation: { finish_reason: 'stop' },
    } as unknown as JournalCall['sampled'],
    answer: {
      kind: 'answer',
      at,
      turn: TURN,
      ...saidIn(text, { turn: TURN, ...PARSERS }),
    } as JournalCall['answer'],
    given: new Map<number, boolean>(),
  } as JournalCall;
  return { rollout_id: 'b/0-0', turn: TURN, call };
}

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

/** As one connection sends it whose text grew at these places. */
function streamed(whole: string, cuts: readonly number[]): string {
  const of = answering(whole);
  let before: Parameters<typeof newsIn>[0] = NOTHING;
  const events = [firstEvent(of)];
  for (const cut of [
    ...cuts.filter((at) => at < whole.length).sort((a, b) => a - b),
    whole.length,
  ]) {
    const after = readAnswer(whole.slice(0, cut), { ...PARSERS, ended: cut === whole.length });
    const { calls, ...news } = newsIn(before, after);
    const from = before.calls.length;
    const made = calls.map((call, k) => ({ id: callId(TURN, from + k), ...call }));
    events.push(...newsEvents(of, { ...news, tool_calls: { from, calls: made } }));
    before = after;
  }
  const all = [...events, ...lastEvents(of, { include_usage: true })].map(
    (one) => `data: ${JSON.stringify(one)}\n\n`,
  );
  return [...all, 'data: [DONE]\n\n'].join(': \n');
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
        answer(JSON.stringify(completion(answering(whole))));
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
    const events = lastEvents(answering('yes', {}), {});
    assert.doesNotMatch(JSON.stringify(events), /usage/);
  });
});

describe('an answer', () => {
  test('has its thoughts under both names that clients know', () => {
    const body = JSON.stringify(completion(answering('<think>\nso\n</think>\n\nyes')));
    assert.match(body, /"reasoning_content":"so","reasoning":"so"/);
  });

  test('is the same, byte for byte, however often it is given', () => {
    const twice = [0, 1].map(() => JSON.stringify(completion(answering('é 🧩'))));
    assert.equal(twice[0], twice[1]);
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
