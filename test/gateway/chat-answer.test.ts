/** Answers in the words of `/v1/chat/completions`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  completion,
  firstEvent,
  lastEvents,
  newsEvents,
} from '../../src/gateway/dialects/chat/chat-answer.js';
import { contextFull, limitReached, openaiError } from '../../src/gateway/request/refusals.js';
import { readAnswer } from '../../src/model/calls/parsers/read-answer.js';
import { author, foldOf, wholeCall } from '../fakes/journal-lines.js';
import { newsIn } from './news-in.js';
import { PARSERS } from './toy-template.js';

const a = author('a');
const tool_calls = [{ id: 'call_0_0', name: 'ls', arguments: '{"n":1.0}' }];

function answering(said: { content: string; reasoning?: string; tool_calls: typeof tool_calls }) {
  const asked = { model: 'mine', include_usage: true } as const;
  const [call, ...rest] = wholeCall(a, {
    cause: 'first',
    prompt_ids: [1, 2, 3],
    ids: [4, 5],
    asked,
  });
  const lines = [
    a.claim(),
    a.start({ plays: 'agent', prompt: [] }),
    a.life(),
    { ...call, at: 1700000000.5 },
    ...rest.slice(0, -1),
    a.answer({ ...said }),
  ];
  const [folded] = foldOf(lines as Parameters<typeof foldOf>[0]).calls;
  assert.ok(folded !== undefined);
  return { rollout_id: 'b/0-0', turn: 0, call: folded };
}

test('an answer is a function of its call', () => {
  const of = answering({ content: '', reasoning: 'hm', tool_calls });
  assert.deepEqual(completion(of), {
    id: 'chatcmpl-b/0-0-0',
    created: 1700000000,
    model: 'mine',
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: null,
          reasoning_content: 'hm',
          reasoning: 'hm',
          tool_calls: [
            { id: 'call_0_0', type: 'function', function: { name: 'ls', arguments: '{"n":1.0}' } },
          ],
        },
        finish_reason: 'tool_calls',
      },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  });
});

test('the events of a stream add up to the answer, wherever its text is cut', () => {
  const text =
    '<think>hm</think>I look.\n<tool_call>{"name":"ls","arguments":{"n":1.0}}</tool_call>';
  const of = answering({ content: 'I look.', reasoning: 'hm', tool_calls });
  for (let step = 1; step <= text.length; step++) {
    let before = readAnswer('', { ...PARSERS, ended: false });
    const events = [firstEvent(of)];
    for (let end = step; ; end += step) {
      const after = readAnswer(text.slice(0, end), { ...PARSERS, ended: end >= text.length });
      const { calls, ...news } = newsIn(before, after);
      const from = before.calls.length;
      events.push(
        ...newsEvents(of, {
          ...news,
          tool_calls: { from, calls: tool_calls.slice(from, from + calls.length) },
        }),
      );
      before = after;
      if (end >= text.length) break;
    }
    const deltas = events.flatMap(({ choices }) =>
      (choices as { delta: Record<string, unknown> }[]).map(({ delta }) => delta),
    );
    const all = (name: string): string =>
      deltas.flatMap((delta) => (typeof delta[name] === 'string' ? [delta[name]] : [])).join('');
    assert.equal(all('content'), 'I look.');
    assert.equal(all('reasoning_content'), 'hm');
    assert.deepEqual(
      deltas.flatMap((delta) => delta['tool_calls'] ?? []),
      [
        {
          index: 0,
          id: 'call_0_0',
          type: 'function',
          function: { name: 'ls', arguments: '{"n":1.0}' },
        },
      ],
    );
  }
  const [end, usage] = lastEvents(of, { include_usage: true });
  assert.deepEqual(end?.['choices'], [{ index: 0, finish_reason: 'tool_calls', delta: {} }]);
  assert.deepEqual(usage?.['choices'], []);
});

test('refusals have the words that agents look for', () => {
  const { error } = openaiError(contextFull({ tokens: 5000, most: 4096 })).body;
  assert.equal(error.code, 'context_length_exceeded');
  assert.match(error.message, /^This model's maximum context length is 4096 tokens\./);
  const limit = limitReached('calls', 100);
  assert.equal(limit.status, 400);
  assert.equal(openaiError(limit).body.error.code, 'rollout_limit');
  const unknown = openaiError({ status: 404, code: 'not_found', message: 'no such path' }).body;
  assert.deepEqual([unknown.error.type, unknown.error.param], ['not_found_error', null]);
});
