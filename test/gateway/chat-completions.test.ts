/** Requests of the dialect `/v1/chat/completions`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readChatRequest } from '../../src/gateway/dialects/chat/chat-request.js';
import { openaiError } from '../../src/gateway/request/refusals.js';
import { refusalOf } from './asking.js';
import type { RequestLimits } from '../../src/gateway/request/request.js';
import { KeptJson } from '../../src/platform/json/kept.js';

const LIMITS: RequestLimits = { structured: 'refuse', role_map: {}, kwargs: {} };
const go = { role: 'user', content: 'go' };

const read = (body: unknown, limits: Partial<RequestLimits> = {}) =>
  readChatRequest(
    Buffer.isBuffer(body)
      ? body
      : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    { ...LIMITS, ...limits },
  );
function accepted(body: unknown, limits: Partial<RequestLimits> = {}) {
  return read(body, limits);
}
function refused(body: unknown, limits: Partial<RequestLimits> = {}) {
  return refusalOf(() => read(body, limits));
}

describe('a conversation', () => {
  test('has the first system message apart, and later ones in the message that follows', () => {
    const { system, messages } = accepted({
      messages: [
        { role: 'developer', content: 'be brief' },
        go,
        { role: 'system', content: 'note' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        { role: 'assistant', content: 'done' },
        { role: 'system', content: 'more' },
      ],
    });
    assert.equal(system, 'be brief');
    assert.deepEqual(messages, [
      go,
      { role: 'user', content: 'note\n\na\nb' },
      { role: 'assistant', content: 'done' },
      { role: 'user', content: 'more' },
    ]);
  });

  test('says of a later system message what role_map says', () => {
    const later = { messages: [go, { role: 'system', content: 'note' }] };
    assert.deepEqual(accepted(later, { role_map: { system: 'tool' } }).messages[1], {
      role: 'tool',
      content: 'note',
    });
  });

  test('keeps calls, their results and thoughts', () => {
    const { messages } = accepted({
      messages: [
        go,
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'hm',
          tool_calls: [
            {
              id: 'call_0_0',
              type: 'function',
              function: { name: 'ls', arguments: '{"n":9007199254740993}' },
            },
            { id: 'call_0_1', type: 'function', function: { name: 'ls', arguments: '' } },
          ],
        },
        { role: 'tool', tool_call_id: 'call_0_0', content: 'a.txt', name: 'ls' },
      ],
    });
    assert.deepEqual(messages.slice(1), [
      {
        role: 'assistant',
        content: '',
        reasoning: 'hm',
        tool_calls: [
          { id: 'call_0_0', name: 'ls', arguments: '{"n":9007199254740993}' },
          { id: 'call_0_1', name: 'ls', arguments: '{}' },
        ],
      },
      { role: 'tool', content: 'a.txt', tool_call_id: 'call_0_0' },
    ]);
  });
});

describe('what an agent asks of sampling', () => {
  test('is taken note of, or ignored by name', () => {
    const { asked, stream, tool_choice } = accepted({
      model: 'policy',
      messages: [{ ...go, name: 'me' }],
      max_tokens: 9,
      max_completion_tokens: 7,
      stop: 'END',
      logprobs: true,
      top_logprobs: 3,
      n: 1,
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0,
      tool_choice: 'required',
      metadata: { a: 1 },
      user: 'u',
      strange: true,
      seed: null,
    });
    assert.deepEqual(asked, {
      model: 'policy',
      max_tokens: 7,
      stop: ['END'],
      logprobs: 3,
      include_usage: true,
      ignored: ['temperature', 'tool_choice', 'strange', 'messages.name'],
    });
    assert.equal(stream, true);
    assert.equal(tool_choice, 'required');
  });

  test('leaves hosted tools out and keeps functions as they came', () => {
    const tool =
      '{"type":"function","function":{"name":"f","parameters":{"2":1.0,"1":0,"__proto__":{}}}}';
    const body = `{"messages":[{"role":"user","content":"go"}],"tools":[${tool},{"type":"web_search"}],"__proto__":{"n":2}}`;
    const { tools, asked } = accepted(body);
    assert.ok(Array.isArray(tools) && tools.length === 1);
    assert.ok(tools[0] instanceof KeptJson);
    assert.equal(tools[0].text, tool);
    assert.deepEqual(asked.ignored, ['__proto__', 'tools (web_search)']);
  });

  test('shapes nothing by a field that says what is so anyway', () => {
    const { asked, tools } = accepted({
      messages: [go],
      tools: [{ type: 'function', function: { name: 'f' } }],
      ...{ tool_choice: 'auto', functions: [], structured_outputs: null, logit_bias: {} },
      ...{ add_generation_prompt: true, min_tokens: 0, modalities: ['text'] },
    });
    assert.ok(Array.isArray(tools) && tools.length === 1);
    assert.equal(asked.ignored?.includes('tool_choice') ?? false, false);
  });

  test('leaves the tools out of the prompt where none shall be called', () => {
    const f = { type: 'function', function: { name: 'f' } };
    const { tools, tool_choice } = accepted({ messages: [go], tools: [f], tool_choice: 'none' });
    assert.deepEqual([tools, tool_choice], [null, 'none']);
  });

  test('may have the arguments of the template that the batch has', () => {
    const body = { messages: [go], chat_template_kwargs: { enable_thinking: false } };
    const { asked } = accepted(body, { kwargs: { enable_thinking: 'false', other: '1' } });
    assert.deepEqual(asked, {});
    assert.match(
      refused(body, { kwargs: { enable_thinking: 'true' } }).message,
      /chat_template_kwargs: true\), got false/,
    );
  });

  test('may be a structure only where the environment allows it', () => {
    const format = { type: 'json_schema', json_schema: { name: 'x', schema: {} } };
    assert.match(refused({ messages: [go], response_format: format }).message, /structured: allow/);
    const { asked } = accepted(
      { messages: [go], response_format: format },
      { structured: 'allow' },
    );
    assert.equal(asked.structured, JSON.stringify(format));
    assert.deepEqual(accepted({ messages: [go], response_format: { type: 'text' } }).asked, {});
  });
});

test('an agent that wants one tool call an answer is noted as that', () => {
  const { asked } = accepted({
    messages: [{ role: 'user', content: 'go' }],
    parallel_tool_calls: false,
  });
  assert.deepEqual(asked, { one_tool_call: true });
});

describe('a request that is refused says which field, what was expected and what came', () => {
  const deep = `{"messages":${'['.repeat(600)}${']'.repeat(600)}}`;
  const f = { type: 'function', function: { name: 'f' } };
  const picture = (url: string) => ({
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
  });
  // One case a line.
  // prettier-ignore
  const cases: Record<string, [body: unknown, message: RegExp, status?: number]> = {
    'no JSON': ['{"messages":', /^expected JSON as the body/],
    'no object': ['[]', /^expected a JSON object/],
    'no UTF-8': [Buffer.from([0x22, 0xff, 0x22]), /0xff at byte 1/],
    'too deep': [deep, /at most 512 levels/],
    'no messages': [{ messages: [] }, /^messages: /],
    '10,001 messages': [{ messages: Array(10_001).fill(go) }, /^messages: .*10000/],
    '513 tools': [{ messages: [go], tools: Array(513).fill({ type: 'function', function: { name: 'f' } }) }, /^tools: .*512/],
    'a tool without a name': [{ messages: [go], tools: [{ type: 'function' }] }, /^tools\[0\]\.function\.name/],
    'four answers at once': [{ messages: [go], n: 4 }, /^n: expected 1, got 4/],
    'prefill': [{ messages: [go, { role: 'assistant', content: 'I' }] }, /prefill/],
    'system messages alone': [{ messages: [{ role: 'system', content: 'x' }] }, /no system message/],
    'an unknown role': [{ messages: [go, { role: 'function', content: 'x' }] }, /^messages\[1\]\.role: /],
    'no content': [{ messages: [{ role: 'user' }] }, /^messages\[0\]\.content: expected a string/],
    'a result of no call': [{ messages: [go, { role: 'tool', content: 'x' }] }, /^messages\[1\]\.tool_call_id/],
    'arguments that are no text': [{ messages: [go, { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: {} } }] }, go] }, /^messages\[1\]\.tool_calls\.0\.function\.arguments: expected string/],
    'a picture by address': [picture('http://169.254.169.254/'), /http:\/\/169.254.169.254\/.*no address is opened/],
    'a picture by file': [picture('file:///etc/passwd'), /no address is opened/],
    'a picture in the request': [picture('data:image/png;base64,AA=='), /not taken yet/],
    'a part of another kind': [{ messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, /input_audio/],
    '17 stop strings': [{ messages: [go], stop: Array(17).fill('x') }, /^stop/],
    'a stop string of 257 characters': [{ messages: [go], stop: ['x'.repeat(257)] }, /^stop/],
    '21 logprobs': [{ messages: [go], logprobs: true, top_logprobs: 21 }, /^top_logprobs: /],
    'deep arguments': [{ messages: [go, { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: '['.repeat(600) + ']'.repeat(600) } }] }, go] }, /^messages\[1\]\.tool_calls\[0\]\.function\.arguments: expected at most 512 levels/],
    'a named tool': [{ messages: [go], tools: [f], tool_choice: { type: 'function', function: { name: 'f' } } }, /^tool_choice: expected auto, none or required.*, got \{"type":"function"/],
    'tools by name': [{ messages: [go], tool_choice: 'f' }, /^tool_choice: .*got "?f/],
    'functions': [{ messages: [go], functions: [{ name: 'f' }] }, /^functions: /],
    'a function by name': [{ messages: [go], function_call: { name: 'f' } }, /^function_call: /],
    'a custom tool': [{ messages: [go], tools: [{ type: 'custom', custom: { name: 'f' } }] }, /^tools\[0\]\.type: expected function, got "?custom/],
    'structured outputs': [{ messages: [go], structured_outputs: { choice: ['a'] } }, /^structured_outputs: /],
    'a guide': [{ messages: [go], guided_json: { type: 'object' } }, /^guided_json: /],
    'a template': [{ messages: [go], chat_template: 'x' }, /^chat_template: /],
    'an answer that goes on': [{ messages: [go], continue_final_message: true }, /^continue_final_message: /],
    'a bias': [{ messages: [go], logit_bias: { '5': -100 } }, /^logit_bias: /],
    'arguments of the template': [{ messages: [go], chat_template_kwargs: { enable_thinking: false } }, /^chat_template_kwargs\.enable_thinking: expected what the batch has \(generation\.chat_template_kwargs: nothing\), got false/],
    'arguments that are none': [{ messages: [go], chat_template_kwargs: 3 }, /^chat_template_kwargs: expected an object, got 3/],
    'no tokens': [{ messages: [go], max_tokens: 0 }, /^max_tokens: /],
  };
  for (const [what, [body, message, status = 400]] of Object.entries(cases))
    test(what, () => {
      const refusal = refused(body);
      assert.match(refusal.message, message);
      assert.equal(refusal.status, status);
      const { error } = openaiError(refusal).body;
      assert.equal(error.type, 'invalid_request_error');
      assert.ok(error.message.length < 600);
    });
});
