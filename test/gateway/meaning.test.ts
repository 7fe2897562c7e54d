/** When two requests are the same. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { hashedInTurns, hashedRequest } from '../../src/gateway/request/meaning.js';
import { meaningOfJson } from '../../src/platform/json/meaning.js';
import type { AgentRequest } from '../../src/gateway/request/request.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import { KeptJson } from '../../src/platform/json/kept.js';

const tools = [{ type: 'function', function: { name: 'ls' } }];
const request = (given: Partial<AgentRequest> = {}): AgentRequest => ({
  system: 'be brief',
  messages: [{ role: 'user', content: 'go' }],
  tools,
  tool_choice: null,
  asked: {},
  stream: false,
  ...given,
});
const keyOf = (given: Partial<AgentRequest>): string => hashedRequest(request(given)).key;
const answer = (given: Partial<CallMessage>): Partial<AgentRequest> => ({
  messages: [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: 'x', ...given },
    { role: 'user', content: 'on' },
  ],
});
const called = (given: string) =>
  answer({ tool_calls: [{ id: 'call_0_0', name: 'ls', arguments: given }] });

describe('requests are the same', () => {
  const same: Record<string, [Partial<AgentRequest>, Partial<AgentRequest>]> = {
    'with another model, streamed or not': [{}, { stream: true, asked: { model: 'x' } }],
    'with an answer up to blanks at its end': [answer({}), answer({ content: 'x \n' })],
    'with arguments written anew': [
      called('{"a": 1.0, "b": "é"}'),
      called('{"b":"\\u00e9","a":1}'),
    ],
    'with tools in another order of names': [
      {},
      { tools: [{ function: { name: 'ls' }, type: 'function' }] },
    ],
    'with tools that JavaScript would lose': [
      { tools: [new KeptJson('{"a":{"2":1,"1":2}}')] },
      { tools: [{ a: { 1: 2, 2: 1 } }] },
    ],
    'with the usual choice of tools': [{}, { tool_choice: 'auto' }],
    'with an error that is said': [answer({}), answer({ is_error: true })],
  };
  for (const [what, [a, b]] of Object.entries(same))
    test(what, () => {
      assert.equal(keyOf(a), keyOf(b));
    });

  const different: Record<string, [Partial<AgentRequest>, Partial<AgentRequest>]> = {
    'with another system message': [{}, { system: 'be long' }],
    'without a system message, or an empty one': [{ system: null }, { system: '' }],
    'with other tools': [{}, { tools: null }],
    'with a message that ends in a blank': [{}, { messages: [{ role: 'user', content: 'go ' }] }],
    'with another limit': [{}, { asked: { max_tokens: 5 } }],
    'with other stop strings': [{}, { asked: { stop: ['a'] } }],
    'with another choice of tools': [{}, { tool_choice: 'required' }],
    'with digits beyond 2^53': [called('{"n":9007199254740993}'), called('{"n":9007199254740992}')],
    'with a number that no double holds': [called('{"n":1e400}'), called('{"n":1e401}')],
    'with __proto__ in the arguments': [called('{"__proto__":{"a":1}}'), called('{}')],
    'with another tool call': [
      called('{}'),
      answer({ tool_calls: [{ id: 'call_1_0', name: 'ls', arguments: '{}' }] }),
    ],
    'with other thoughts': [answer({ reasoning: 'a' }), answer({ reasoning: 'b' })],
    'with arguments that are no JSON': [called('{'), called('{{')],
  };
  for (const [what, [a, b]] of Object.entries(different))
    test(`not ${what}`, () => {
      assert.notEqual(keyOf(a), keyOf(b));
    });
});

test('the same beginning has the same hashes, with or without thoughts', () => {
  const { said } = hashedRequest(request(answer({ reasoning: 'hm' })));
  assert.deepEqual(hashedRequest(request(answer({}))).said, said);
  assert.equal(hashedRequest(request()).said[0], said[0]);
});

test('JSON means the same however it is written', () => {
  const json = fc.json({ maxDepth: 4 });
  fc.assert(
    fc.property(json, fc.constantFrom(0, 1, 2), (text, indent) => {
      const value: unknown = JSON.parse(text);
      assert.equal(meaningOfJson(JSON.stringify(value, null, indent)), meaningOfJson(text));
      const kept = `[${text},9007199254740993]`;
      assert.equal(meaningOfJson(kept), `[${meaningOfJson(text)},9007199254740993]`);
    }),
  );
});

test('a long conversation has the same hashes in turns, and others have theirs in between', async () => {
  const messages = Array.from({ length: 40 }, (_, k) => ({
    role: 'user' as const,
    content: `${k} ${'x'.repeat(100_000)}`,
  }));
  const long = request({ messages });
  let turns = 0;
  const others = setInterval(() => (turns += 1), 0);
  const hashed = await hashedInTurns(long);
  clearInterval(others);
  assert.deepEqual(hashed, hashedRequest(long));
  assert.ok(turns > 1, `${turns} turns`);
});
