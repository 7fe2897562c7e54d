/** Answers in the words of `/v1/responses`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RESPONSES } from '../../src/gateway/dialects/dialects.js';
import type { Said } from '../../src/model/calls/message.js';
import { messageOf } from '../../src/model/calls/message.js';
import { author, foldOf, wholeCall } from '../fakes/journal-lines.js';

const a = author('a');

function answered(said: Omit<Said, 'malformed'>, finish_reason: 'stop' | 'length' = 'stop') {
  const asked = { model: 'mine', max_tokens: 9 };
  const [call, chunk] = wholeCall(a, { cause: 'first', prompt_ids: [1, 2, 3], ids: [4, 5], asked });
  const lines = [
    a.claim(),
    a.start({ plays: 'agent', prompt: [] }),
    a.life(),
    { ...call, at: 1700000000.5 },
    chunk,
    a.generation({ turn: 0, token_count: 2, finish_reason }),
    a.answer(said),
  ];
  const [folded] = foldOf(lines as Parameters<typeof foldOf>[0]).calls;
  assert.ok(folded !== undefined);
  return RESPONSES.answer({ rollout_id: 'b/0-0', turn: 0, call: folded });
}

const outputOf = (said: Omit<Said, 'malformed'>) => (answered(said) as { output: object[] }).output;

const ls = { id: 'call_0_0', name: 'ls', arguments: '{"n":1.0}' };
const said = { content: 'I look.', reasoning: 'hm', tool_calls: [ls] };

test('an answer is a function of its call: thoughts, text, calls', () => {
  assert.deepEqual(answered(said), {
    id: 'resp_b/0-0-0',
    object: 'response',
    created_at: 1700000000,
    status: 'completed',
    incomplete_details: null,
    error: null,
    model: 'mine',
    instructions: null,
    metadata: {},
    max_output_tokens: 9,
    parallel_tool_calls: true,
    temperature: null,
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    output: [
      { type: 'reasoning', id: 'rs_b/0-0-0', summary: [{ type: 'summary_text', text: 'hm' }] },
      {
        type: 'message',
        id: 'msg_b/0-0-0',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
      },
      {
        type: 'function_call',
        id: 'fc_b/0-0-0-0',
        call_id: 'call_0_0',
        name: 'ls',
        arguments: '{"n":1.0}',
        status: 'completed',
      },
    ],
    usage: {
      input_tokens: 3,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 2,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 5,
    },
  });
});

test('calls have no empty text before them, and what says nothing else has one', () => {
  const types = (of: Omit<Said, 'malformed'>) =>
    outputOf(of).map((item) => (item as { type: string }).type);
  assert.deepEqual(types({ content: '', tool_calls: [ls, ls] }), [
    'function_call',
    'function_call',
  ]);
  assert.deepEqual(types({ content: '', tool_calls: [] }), ['message']);
  assert.deepEqual(types({ content: '', reasoning: 'hm', tool_calls: [] }), [
    'reasoning',
    'message',
  ]);
});

test('an answer that its limit cut is incomplete', () => {
  const { status, incomplete_details } = answered(
    { content: 'I', tool_calls: [] },
    'length',
  ) as Record<string, unknown>;
  assert.deepEqual([status, incomplete_details], ['incomplete', { reason: 'max_output_tokens' }]);
});

test('an answer that comes back as it was given is the answer', () => {
  for (const of of [
    said,
    { content: '', tool_calls: [ls] },
    { content: 'yes\n', tool_calls: [] },
    { content: '', reasoning: 'hm', tool_calls: [] },
  ]) {
    const input = [
      { role: 'user', content: 'go' },
      ...outputOf(of),
      { role: 'user', content: 'on' },
    ];
    const read = RESPONSES.read(Buffer.from(JSON.stringify({ input })), {
      structured: 'refuse',
      role_map: {},
      kwargs: {},
    });
    assert.deepEqual(read.messages[1], messageOf({ ...of, malformed: 0 }));
  }
});
