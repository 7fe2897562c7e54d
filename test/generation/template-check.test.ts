import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { templateProblem } from '../../src/model/turn/template-check.js';
import type { Recorded } from '../templates/replay.js';
import { CASES, conversationOf, replayed } from '../templates/replay.js';

const RENDERINGS = JSON.parse(
  readFileSync(path.join(import.meta.dirname, '../templates/renderings.json'), 'utf8'),
) as Recorded[];

const EXACT = /^null$/;
const LEFT_OUT = /leaves out messages of role environment: map it .*role_map/;
const REFUSED = /refuses .* \(400 .*\): map it .*role_map/;
const REWRITTEN =
  /rewrites what was said: at token \d+, message \d \(assistant\), expected token 60 "<" again, got token 111 "o": choose one: a template .*--chat-template/;
const PROMPT =
  /rewrites what was said: at token \d+, generation prompt of message \d \(assistant\), expected token 60 "<"/;
const CHANNEL =
  /rewrites what was said: at token \d+, message 1 \(assistant\), expected token 60 "<" again, got token \d+ "<\|channel\|>"/;

/** By template and its settings: what becomes of observations of role user, tool and environment. */
const TABLE: Record<string, [user: RegExp, tool: RegExp, environment: RegExp]> = {
  'qwen2_5 {}': [EXACT, EXACT, LEFT_OUT],
  'qwen3 {}': [REWRITTEN, EXACT, LEFT_OUT],
  'qwen3 {"enable_thinking":false}': [PROMPT, PROMPT, LEFT_OUT],
  'qwen3_training {}': [EXACT, EXACT, LEFT_OUT],
  'qwen3_instruct_2507 {}': [EXACT, EXACT, LEFT_OUT],
  'llama3 {}': [EXACT, EXACT, EXACT],
  'llama3_1 {}': [EXACT, EXACT, EXACT],
  'mistral_small {}': [EXACT, REFUSED, REFUSED],
  'gemma {}': [EXACT, REFUSED, REFUSED],
  'gemma3 {}': [EXACT, REFUSED, REFUSED],
  'gptoss {}': [CHANNEL, REFUSED, LEFT_OUT],
};

describe('a chat template of the field', () => {
  for (const [k, one] of CASES.entries()) {
    const name = `${one.name} ${JSON.stringify(one.kwargs)}`;
    test(`${name} is continued exactly, or refused with the token and what helps`, async () => {
      const recorded = RENDERINGS[k];
      assert.ok(recorded !== undefined);
      assert.deepEqual([recorded.name, recorded.kwargs], [one.name, one.kwargs]);
      for (const conversation of conversationOf(one)) {
        const { role, prompt } = conversation;
        const found = String(await templateProblem(conversation, replayed(recorded)));
        const [user, tool, environment] = TABLE[name] ?? [];
        const expected = { user, tool, environment }[role];
        // Gemma's first template has no system messages.
        const isRefused = one.name === 'gemma' && prompt.length > 1;
        assert.match(
          found,
          (isRefused ? REFUSED : expected) ?? assert.fail(name),
          `${prompt.join()} ${role}`,
        );
      }
    });
  }
});
