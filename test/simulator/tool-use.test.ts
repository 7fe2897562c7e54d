/** The simulator's policy calls tools as the prompt prescribes, and slips as its skill says. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { renderChat } from '../../simulator/policy/chat-template.js';
import type { ChatMessage, ToolCall } from '../../simulator/policy/chat-template.js';
import { createPolicy } from '../../simulator/policy/policy.js';
import type { Generation, PolicyRequest } from '../../simulator/policy/policy.js';
import { createRandom } from '../../simulator/random.js';
import { decode, encode } from '../../simulator/policy/tokenizer.js';

const policy = createPolicy();
const SKILLED = 20;
const TOOL = {
  type: 'function',
  function: { name: 'run', description: 'Runs a command.', parameters: { type: 'object' } },
};
const CALL: ToolCall = { name: 'run', arguments: { command: 'ls "ä"', depth: 2 } };
const OTHER: ToolCall = { name: 'read', arguments: { file: 'a.py' } };
const TASK: ChatMessage = {
  role: 'user',
  content: `Find it.\nCall: ${JSON.stringify(CALL)}\nCall: ${JSON.stringify([CALL, OTHER])}\nAnswer: it is 42`,
};
const CALL_TEXT =
  '<tool_call>\n{"name": "run", "arguments": {"command": "ls \\"ä\\"", "depth": 2}}\n</tool_call>';
const OTHER_TEXT = '<tool_call>\n{"name": "read", "arguments": {"file": "a.py"}}\n</tool_call>';

type Request = Partial<Omit<PolicyRequest, 'random' | 'prompt'>> & { seed?: number; said?: string };

function answer(
  messages: readonly ChatMessage[],
  { seed = 1, said = '', ...request }: Request = {},
): Generation {
  const prompt = renderChat(messages, { add_generation_prompt: true, tools: [TOOL] });
  return policy({
    prompt: [...encode(prompt), ...encode(said)],
    max_tokens: 2000,
    min_tokens: 0,
    ignore_eos: false,
    sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
    skill: SKILLED,
    thinking: [0, 0],
    ...request,
    random: createRandom(seed),
  });
}

const textOf = ({ token_ids }: Generation): string =>
  decode(token_ids, { skip_special_tokens: false });

const calls = (...made: ToolCall[]): ChatMessage => ({
  role: 'assistant',
  content: '',
  tool_calls: made,
});
const result = (content: string): ChatMessage => ({ role: 'tool', content });

describe('the template', () => {
  test('writes tools, calls and results as Hermes does', () => {
    const text = renderChat(
      [
        { role: 'system', content: 'Be brief.' },
        TASK,
        calls(CALL, OTHER),
        result('a'),
        result('b'),
      ],
      { add_generation_prompt: true, tools: [TOOL] },
    );
    assert.ok(
      text.startsWith(
        '<|im_start|>system\nBe brief.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{"type": "function", "function": {"name": "run", "description": "Runs a command.", "parameters": {"type": "object"}}}\n</tools>\n\nFor each function call',
      ),
      text,
    );
    assert.ok(
      text.endsWith(
        `<|im_start|>assistant\n${CALL_TEXT}\n${OTHER_TEXT}<|im_end|>\n<|im_start|>user\n<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response><|im_end|>\n<|im_start|>assistant\n`,
      ),
      text,
    );
  });
});

describe('steps', () => {
  test('follow each other until the answer', () => {
    assert.equal(textOf(answer([TASK])), `\n${CALL_TEXT}<|im_end|>`);
    const once = [TASK, calls(CALL), result('x')];
    assert.equal(textOf(answer(once)), `\n${CALL_TEXT}\n${OTHER_TEXT}<|im_end|>`);
    const twice = [...once, calls(CALL, OTHER), result('y'), result('z')];
    assert.equal(textOf(answer(twice)), '\nit is 42<|im_end|>');
  });

  test('are done whatever the order of their arguments, and not by a result that quotes a line', () => {
    const restated = { name: 'run', arguments: { depth: 2, command: 'ls "ä"' } };
    const next = answer([TASK, calls(restated), result('Call: {"name": "rm", "arguments": {}}')]);
    assert.equal(textOf(next), `\n${CALL_TEXT}\n${OTHER_TEXT}<|im_end|>`);
  });

  test('are taken again after a wrong call', () => {
    const wrong = [TASK, calls({ name: 'run', arguments: {} }), result('error')];
    assert.equal(textOf(answer(wrong)), `\n${CALL_TEXT}<|im_end|>`);
  });

  test('that have a slip are done with it, and slip no other way', () => {
    const slips = {
      role: 'user',
      content: `Call: ${JSON.stringify(CALL)}\nSlip: ${JSON.stringify(OTHER)}\nAnswer: done`,
    };
    const said = new Set(
      Array.from({ length: 60 }, (_, seed) => textOf(answer([slips], { seed, skill: 0 }))),
    );
    assert.deepEqual([...said].sort(), [`\n${OTHER_TEXT}<|im_end|>`, `\n${CALL_TEXT}<|im_end|>`]);
    for (const call of [CALL, OTHER])
      assert.equal(textOf(answer([slips, calls(call), result('x')])), '\ndone<|im_end|>');
  });

  test('are those of the last message that has some', () => {
    const later: ChatMessage = { role: 'user', content: 'Answer: no' };
    assert.equal(textOf(answer([TASK, calls(CALL), result('x'), later])), '\nno<|im_end|>');
  });
});

describe('an answer', () => {
  for (const think_tags of [false, true])
    test(`that is resumed after any of its tokens goes on as it would have, tags ${String(think_tags)}`, () => {
      const asked = { think_tags, thinking: [20, 20] as const };
      const whole = answer([TASK], asked);
      const text = textOf(whole);
      assert.match(
        text,
        think_tags ? /^<think>\n[^<]+\n<\/think>\n\n<tool_call>/ : /^[^<\n]+\n<tool/,
      );
      const action = text.indexOf('<tool_call>');
      for (let cut = 0; cut < whole.token_ids.length; cut++) {
        const said = decode(whole.token_ids.slice(0, cut), { skip_special_tokens: false });
        if (said.includes('\uFFFD')) continue;
        const rest = textOf(answer([TASK], { ...asked, said, seed: cut }));
        const together = said + rest;
        assert.equal(together.slice(together.indexOf('<tool_call>')), text.slice(action), said);
        if (think_tags)
          assert.equal(together.match(/<\/?think>/g)?.join(''), '<think></think>', said);
      }
    });

  test('slips as often as the skill says, and its logprobs say how likely it was', () => {
    const shares = [0, 2].map((skill) => {
      const texts = Array.from({ length: 400 }, (_x, seed) => answer([TASK], { skill, seed }));
      const right = texts.filter((one) => textOf(one).includes(CALL_TEXT));
      for (const one of right) {
        const logprob = one.logprobs.reduce((sum, each) => sum + each, 0);
        assert.ok(Math.abs(Math.exp(logprob) - (1 - 0.5 * Math.exp(-skill))) < 1e-5);
      }
      return right.length / texts.length;
    });
    assert.ok(Math.abs((shares[0] ?? 0) - 0.5) < 0.1, String(shares));
    assert.ok(Math.abs((shares[1] ?? 0) - 0.932) < 0.05, String(shares));
  });

  test('has as many calls that are no JSON as are asked for', () => {
    const texts = Array.from({ length: 200 }, (_x, seed) =>
      textOf(answer([TASK], { malformed_calls: 0.5, seed })),
    );
    const broken = texts.filter((text) => {
      const [, json = ''] = /<tool_call>\n(.*)\n<\/tool_call>/.exec(text) ?? [];
      assert.notEqual(json, '');
      try {
        return JSON.parse(json) === undefined;
      } catch {
        return true;
      }
    });
    assert.ok(Math.abs(broken.length - 100) < 30, String(broken.length));
  });
});
