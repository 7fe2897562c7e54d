/** Requests of the dialect `/v1/responses`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readChatRequest } from '../../src/gateway/dialects/chat/chat-request.js';
import { RESPONSES } from '../../src/gateway/dialects/dialects.js';
import { hashedRequest } from '../../src/gateway/request/meaning.js';
import { contextFull } from '../../src/gateway/request/refusals.js';
import type { RequestLimits } from '../../src/gateway/request/request.js';
import { refusalOf } from './asking.js';
import { KeptJson } from '../../src/platform/json/kept.js';

const LIMITS: RequestLimits = { structured: 'refuse', role_map: {}, kwargs: {} };

const bytesOf = (body: unknown): Buffer =>
  Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));

function accepted(body: unknown, limits: Partial<RequestLimits> = {}) {
  return RESPONSES.read(bytesOf(body), { ...LIMITS, ...limits });
}
function refused(body: unknown) {
  return refusalOf(() => RESPONSES.read(bytesOf(body), LIMITS));
}

const called = (k: number, more: object = {}) => ({
  type: 'function_call',
  call_id: `call_0_${k}`,
  name: 'ls',
  arguments: '{"n":9007199254740993}',
  ...more,
});
const result = (k: number, output: unknown) => ({
  type: 'function_call_output',
  call_id: `call_0_${k}`,
  output,
});

describe('a conversation', () => {
  test('may be one text', () => {
    const { system, messages, tools, stream } = accepted({ input: 'go' });
    assert.deepEqual(
      [system, messages, tools, stream],
      [null, [{ role: 'user', content: 'go' }], null, false],
    );
  });

  test('has what items of one answer say in one message, whatever else they have', () => {
    const { system, messages } = accepted({
      instructions: 'be brief',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }] },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: 'I look.', annotations: [], logprobs: null }],
        },
        called(0, { id: 'fc_1', status: 'completed' }),
        called(1, {
          arguments: '',
          prompt_token_ids: [1],
          generation_token_ids: [2],
          generation_log_probs: [0],
        }),
        result(0, 'a.txt'),
        result(1, [{ type: 'input_text', text: 'b.txt' }]),
        { type: 'message', role: 'user', content: 'more' },
      ],
    });
    assert.equal(system, 'be brief');
    assert.deepEqual(messages, [
      { role: 'user', content: 'a\nb' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning: 'hm',
        tool_calls: [
          { id: 'call_0_0', name: 'ls', arguments: '{"n":9007199254740993}' },
          { id: 'call_0_1', name: 'ls', arguments: '{}' },
        ],
      },
      { role: 'tool', content: 'a.txt', tool_call_id: 'call_0_0' },
      { role: 'tool', content: 'b.txt', tool_call_id: 'call_0_1' },
      { role: 'user', content: 'more' },
    ]);
  });

  test('has the thoughts that their item says, and none where it says none', () => {
    const thoughtsOf = (item: object) =>
      accepted({ input: ['go', { type: 'reasoning', ...item }, 'on'].map(asItem) }).messages[1]
        ?.reasoning;
    const asItem = (item: unknown) =>
      typeof item === 'string' ? { role: 'user', content: item } : item;
    const text = (one: string) => ({ type: 'reasoning_text', text: one });
    assert.equal(thoughtsOf({ summary: [text('a'), text('b')] }), 'a\nb');
    assert.equal(thoughtsOf({ summary: [text('short')], content: [text('long')] }), 'long');
    assert.equal(thoughtsOf({ summary: [], encrypted_content: 'x' }), undefined);
  });

  test('has a later system message where chat completions have it', () => {
    const { system, messages } = accepted({
      instructions: 'be brief',
      input: [
        { role: 'developer', content: 'note' },
        { role: 'user', content: 'go' },
      ],
    });
    assert.deepEqual([system, messages], ['be brief', [{ role: 'user', content: 'note\n\ngo' }]]);
  });

  test('is the same request in the other dialect', () => {
    const parameters = { type: 'object', properties: { n: { type: 'integer' } } };
    const chat = readChatRequest(
      bytesOf({
        messages: [
          { role: 'system', content: 'be brief' },
          { role: 'user', content: 'go' },
          {
            role: 'assistant',
            content: null,
            tool_calls: [
              { id: 'call_0_0', type: 'function', function: { name: 'ls', arguments: '{"n":1}' } },
            ],
          },
          { role: 'tool', tool_call_id: 'call_0_0', content: 'a.txt' },
        ],
        tools: [{ type: 'function', function: { name: 'ls', parameters } }],
        max_tokens: 7,
      }),
      LIMITS,
    );
    const other = accepted({
      instructions: 'be brief',
      input: [
        { role: 'user', content: 'go' },
        called(0, { arguments: '{ "n": 1 }', id: 'fc_9' }),
        result(0, 'a.txt'),
      ],
      tools: [{ type: 'function', name: 'ls', description: null, parameters, strict: false }],
      max_output_tokens: 7,
      metadata: { of: 'this one' },
    });
    assert.equal(hashedRequest(other).key, hashedRequest(chat).key);
  });
});

describe('what an agent asks', () => {
  test('is taken note of, or ignored by name', () => {
    const { asked, tool_choice } = accepted({
      model: 'policy',
      input: 'go',
      max_output_tokens: 7,
      temperature: 0,
      top_p: 1,
      tool_choice: 'required',
      reasoning: { effort: 'low' },
      text: { format: { type: 'text' }, verbosity: 'low' },
      include: ['reasoning.encrypted_content'],
      ...{ background: false, truncation: 'disabled', stream: false, previous_response_id: null },
      ...{ store: false, metadata: { a: '1' }, user: 'u', conversation: null },
    });
    assert.deepEqual(asked, {
      model: 'policy',
      max_tokens: 7,
      ignored: ['temperature', 'top_p', 'tool_choice', 'reasoning', 'include', 'text.verbosity'],
    });
    assert.equal(tool_choice, 'required');
  });

  test('has functions as templates know them, digit by digit, and no hosted tools', () => {
    const parameters = '{"2":1.0,"1":9223372036854775783}';
    const { tools, asked } = accepted(
      `{"input":"go","tools":[{"type":"function","name":"f","strict":true,"parameters":${parameters},"description":null},{"type":"web_search"}]}`,
    );
    assert.ok(Array.isArray(tools) && tools.length === 1 && tools[0] instanceof KeptJson);
    assert.equal(
      tools[0].text,
      `{"type":"function","function":{"name":"f","parameters":${parameters}}}`,
    );
    assert.deepEqual(asked.ignored, ['tools (web_search)']);
    assert.equal(
      accepted({ input: 'go', tools: [{ type: 'function', name: 'f' }], tool_choice: 'none' })
        .tools,
      null,
    );
  });
});

test('an agent that wants one tool call an answer is noted as that', () => {
  const { asked } = accepted({ input: 'go', parallel_tool_calls: false });
  assert.deepEqual(asked, { one_tool_call: true });
});

describe('a request that is refused says which field, what was expected and what came', () => {
  const go = { role: 'user', content: 'go' };
  const f = { type: 'function', name: 'f' };
  // One case a line.
  // prettier-ignore
  const cases: Record<string, [body: unknown, message: RegExp, code?: string, status?: number]> = {
    'no JSON': ['{"input":', /^expected JSON as the body/],
    'no input': [{}, /^input: expected a string or a list of items, got nothing/],
    'an empty input': [{ input: [] }, /^input: /],
    '10,001 items': [{ input: Array(10_001).fill(go) }, /^input: .*10000/],
    'an item that is none': [{ input: ['go'] }, /^input\[0\]/],
    'a role of chat completions': [{ input: [{ role: 'tool', content: 'x' }] }, /^input\[0\]\.role: /],
    'a message without content': [{ input: [{ role: 'user' }] }, /^input\[0\]\.content: expected a string or a list of parts, got nothing/],
    'an item of a hosted tool': [{ input: [go, { type: 'web_search_call', id: 'x' }] }, /^input\[1\]\.type: expected message, function_call, function_call_output, reasoning, got "web_search_call"/, 'unsupported_parameter'],
    'a call without an id': [{ input: [go, { type: 'function_call', name: 'f', arguments: '{}' }, go] }, /^input\[1\]\.call_id: /],
    'deep arguments': [{ input: [go, called(0, { arguments: '['.repeat(600) + ']'.repeat(600) }), go] }, /^input\[1\]\.arguments: expected at most 512 levels/],
    'a result of another form': [{ input: [go, called(0), result(0, { a: 1 })] }, /^input\[2\]\.output: expected a string or a list of parts, got \{"a":1\}/],
    'a picture': [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'http://169.254.169.254/' }] }] }, /no address is opened/, 'unsupported_picture'],
    'prefill': [{ input: [go, { role: 'assistant', content: 'I' }] }, /^input: .*prefill/],
    'system messages alone': [{ input: [{ role: 'system', content: 'x' }] }, /^input: .*no system message/],
    'a stream': [{ input: 'go', stream: true }, /^stream: expected false, since these answers are not streamed yet, got true/, 'unsupported_parameter'],
    'an answer in the background': [{ input: 'go', background: true }, /^background: /, 'unsupported_parameter'],
    'a conversation by name': [{ input: 'go', conversation: 'conv_1' }, /^conversation: /, 'unsupported_parameter'],
    'a prompt by name': [{ input: 'go', prompt: { id: 'pmpt_1' } }, /^prompt: /, 'unsupported_parameter'],
    'a conversation that is cut': [{ input: 'go', truncation: 'auto' }, /^truncation: expected disabled/, 'unsupported_parameter'],
    'a structure': [{ input: 'go', text: { format: { type: 'json_object' } } }, /^text\.format: expected type text, got \{"type":"json_object"\}/, 'unsupported_parameter'],
    'a named tool': [{ input: 'go', tools: [f], tool_choice: { type: 'function', name: 'f' } }, /^tool_choice: /, 'unsupported_parameter'],
    'a custom tool': [{ input: 'go', tools: [{ type: 'custom', name: 'f' }] }, /^tools\[0\]\.type: expected function/, 'unsupported_parameter'],
    'a tool without a name': [{ input: 'go', tools: [{ type: 'function', function: { name: 'f' } }] }, /^tools\[0\]\.name: expected a string/],
    'no tokens': [{ input: 'go', max_output_tokens: 0 }, /^max_output_tokens: /],
    'an answer by its id': [{ input: 'go', previous_response_id: 'resp_1' }, /^Previous response with id 'resp_1' not found\./, 'previous_response_not_found', 404],
  };
  for (const [what, [body, message, code = 'invalid_request', status = 400]] of Object.entries(
    cases,
  ))
    test(what, () => {
      const refusal = refused(body);
      assert.match(refusal.message, message);
      assert.deepEqual([refusal.code, refusal.status], [code, status]);
    });
});

test('a full context is refused in OpenAI’s words, by the field of this dialect', () => {
  const { body } = RESPONSES.refusal(contextFull({ tokens: 5000, most: 4096 }));
  assert.deepEqual(body, {
    error: {
      message: contextFull({ tokens: 5000, most: 4096 }).message,
      type: 'invalid_request_error',
      param: 'input',
      code: 'context_length_exceeded',
    },
  });
});
