/** Tool calls and thoughts in the text of an answer. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Parsers, ReadAnswer } from '../../../src/model/calls/parsers/read-answer.js';
import { readAnswer, saidIn } from '../../../src/model/calls/parsers/read-answer.js';

const parsers: Parsers = { tool_parser: 'hermes', reasoning_parser: 'qwen3' };
const read = (text: string, more: Partial<Parsers> = {}): ReadAnswer =>
  readAnswer(text, { ...parsers, ...more, ended: true });
const call = (json: string): string => `<tool_call>\n${json}\n</tool_call>`;
const LS = '{"name": "ls", "arguments": {"path": "."}}';
const called = { name: 'ls', arguments: '{"path": "."}' };

describe('tool calls', () => {
  // One case a line.
  // prettier-ignore
  const whole: Record<string, [text: string, content: string, calls: object[], malformed?: number, calls_at?: number[]]> = {
    'none: the text as it is': ['hello \n', 'hello \n', []],
    'one behind words': [`I look.\n${call(LS)}`, 'I look.', [called]],
    'two, with blanks between': [`${call(LS)}\n${call(LS)}\n`, '', [called, called]],
    'words behind one': [`a\n${call(LS)}\n\nb`, 'a\nb', [called], 0, [1]],
    'digits as they came': [call('{"arguments":{"n":9007199254740993,"f":1.0},"name":"f"}'), '', [{ name: 'f', arguments: '{"n":9007199254740993,"f":1.0}' }]],
    'a closing tag inside a string': [call('{"name":"f","arguments":{"t":"</tool_call> \\" {"}}'), '', [{ name: 'f', arguments: '{"t":"</tool_call> \\" {"}' }]],
    // vllm-project/vllm#21544, #28806, #32152
    'brackets that never close, in a string': [call('{"name": "sh", "arguments": {"command": "mkdir -p test/{test1,test2"}}'), '', [{ name: 'sh', arguments: '{"command": "mkdir -p test/{test1,test2"}' }]],
    'no arguments but an empty object': [call('{"name": "now", "arguments": {}}'), '', [{ name: 'now', arguments: '{}' }]],
    'no JSON': [`x ${call('ls .')}`, `x ${call('ls .')}`, [], 1],
    'no name': [call('{"arguments":{}}'), call('{"arguments":{}}'), [], 1],
    'no arguments': [call('{"name":"f"}'), call('{"name":"f"}'), [], 1],
    'arguments that are no object': [call('{"name":"f","arguments":"{}"}'), call('{"name":"f","arguments":"{}"}'), [], 1],
    'Python instead of JSON': [call("{'name': 'f', 'arguments': {}}"), call("{'name': 'f', 'arguments': {}}"), [], 1],
    'an end that is missing': [`a <tool_call>\n${LS}`, `a <tool_call>\n${LS}`, [], 1],
    'one within another': [`<tool_call>{"name": ${call(LS)}`, '<tool_call>{"name":', [called], 1],
    'a call behind a malformed one': [`<tool_call>x ${call(LS)}`, '<tool_call>x', [called], 1],
    'as deep as a stack': [call(`{"name":"f","arguments":{"a":${'['.repeat(9999)}${']'.repeat(9999)}}}`), call(`{"name":"f","arguments":{"a":${'['.repeat(9999)}${']'.repeat(9999)}}}`), [], 1],
  };
  for (const [what, [text, content, calls, malformed = 0, calls_at]] of Object.entries(whole))
    test(what, () => {
      assert.deepEqual(read(text), { content, calls, ...(calls_at && { calls_at }), malformed });
    });

  test('behind the first are not told to who wants one, at any length of the text', () => {
    const text = `a\n${call(LS)}\nb\n${call(LS)}\nc`;
    const one = { ...parsers, one_tool_call: true };
    assert.deepEqual(readAnswer(text, { ...one, ended: true }).calls, [called]);
    for (let end = 0; end <= text.length; end++) {
      const { calls } = readAnswer(text.slice(0, end), { ...one, ended: false });
      assert.deepEqual(calls, calls.length === 0 ? [] : [called]);
    }
  });

  test('take time that is linear in the text, whatever a policy writes', () => {
    for (const piece of [
      '<tool_call>',
      '<tool_call>{"',
      '<tool_call>{"a":"',
      '<tool_call>{"a":[',
      '<tool_call>{"",',
    ])
      assert.equal(read(piece.repeat(20_000)).calls.length, 0);
  });

  test('have ids that are a function of the answer', () => {
    const { tool_calls } = saidIn(`${call(LS)}${call(LS)}`, { ...parsers, turn: 7 });
    assert.deepEqual(
      tool_calls.map(({ id }) => id),
      ['call_7_0', 'call_7_1'],
    );
  });
});

describe('thoughts', () => {
  const cases: Record<
    string,
    [
      text: string,
      reasoning: string | undefined,
      content: string,
      parser?: Parsers['reasoning_parser'],
    ]
  > = {
    'before the answer': ['<think>\nfive\n</think>\n\nsix', 'five', 'six'],
    none: ['six', undefined, 'six'],
    empty: ['<think>\n\n</think>\n\nsix', '', 'six'],
    cut: ['<think>\nfive', 'five', ''],
    'opened by the prompt': ['five\n</think>\n\nsix', 'five', 'six', 'deepseek_r1'],
    'opened twice': ['<think>five</think>six', 'five', 'six', 'deepseek_r1'],
    'in the middle: no thoughts': ['a <think>b</think>', undefined, 'a <think>b</think>'],
    'not read': ['<think>a</think>b', undefined, '<think>a</think>b', 'none'],
  };
  for (const [what, [text, reasoning, content, reasoning_parser = 'qwen3']] of Object.entries(
    cases,
  ))
    test(what, () => {
      const got = read(text, { reasoning_parser });
      assert.deepEqual([got.reasoning, got.content], [reasoning, content]);
    });
});

const piece = fc.constantFrom(
  '<tool_call>',
  '</tool_call>',
  '<think>',
  '</think>',
  LS,
  call(LS),
  `\n${call('{"name":"f","arguments":{"a":"<tool_call>"}}')}`,
  '{"name":"f","arguments":{',
  '}',
  '"',
  '<',
  '</',
  '<tool',
  ' ',
  '\n',
  'word',
  'é𝒳',
  '\\"',
);
const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
const anyParsers = fc.record<Parsers>({
  tool_parser: fc.constantFrom('hermes', 'hermes', 'none'),
  reasoning_parser: fc.constantFrom('qwen3', 'deepseek_r1', 'none'),
});

test('a text that is read while it grows says at every point what begins the whole, and in the end the whole', () => {
  let withCalls = 0;
  fc.assert(
    fc.property(text, anyParsers, (all, how) => {
      const whole = readAnswer(all, { ...how, ended: true });
      withCalls += whole.calls.length;
      let before: ReadAnswer = { content: '', calls: [], malformed: 0 };
      for (let length = 0; length <= all.length + 1; length++) {
        const after = readAnswer(all.slice(0, length), { ...how, ended: length > all.length });
        assert.ok((after.reasoning ?? '').startsWith(before.reasoning ?? ''));
        assert.ok(after.content.startsWith(before.content));
        assert.deepEqual(after.calls.slice(0, before.calls.length), before.calls);
        assert.ok(after.malformed >= before.malformed);
        before = after;
      }
      assert.deepEqual(before, whole);
    }),
    { numRuns: 3000 },
  );
  assert.ok(withCalls > 500);
});
