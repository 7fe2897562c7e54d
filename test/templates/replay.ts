import assert from 'node:assert/strict';
import type { CheckedTemplate, Conversation } from '../../src/model/turn/template-check.js';
import { Fault } from '../../src/model/faults.js';

/** Renderings of the field's chat templates, as serve.py made them: what is not among them fails loudly. */

export interface Case {
  /** Name of the template's file. */
  name: string;
  kwargs: Record<string, unknown>;
}

export const CASES: Case[] = [
  { name: 'qwen2_5', kwargs: {} },
  { name: 'qwen3', kwargs: {} },
  { name: 'qwen3', kwargs: { enable_thinking: false } },
  { name: 'qwen3_training', kwargs: {} },
  { name: 'qwen3_instruct_2507', kwargs: {} },
  { name: 'llama3', kwargs: {} },
  { name: 'llama3_1', kwargs: {} },
  { name: 'mistral_small', kwargs: {} },
  { name: 'gemma', kwargs: {} },
  { name: 'gemma3', kwargs: {} },
  { name: 'gptoss', kwargs: {} },
];

const ROLES = ['user', 'tool', 'environment'];
const PROMPTS = [['user'], ['system', 'user']];

export const conversationOf = ({ kwargs }: Case): Conversation[] =>
  ROLES.flatMap((role) =>
    PROMPTS.map((prompt) => ({
      prompt,
      role,
      goes_on: true,
      thinks: kwargs['enable_thinking'] !== false,
    })),
  );

type Answer = number[] | string | { error: string };

export interface Recorded extends Case {
  /** By the question as JSON. */
  answers: Record<string, Answer>;
}

interface Asked {
  render: (...given: Parameters<CheckedTemplate['render']>) => Promise<Answer>;
  encode: (text: string) => Promise<Answer>;
  decode: (token_ids: readonly number[]) => Promise<Answer>;
}

/** Errors are the faults of a service. */
export function templateOf(asked: Asked): CheckedTemplate {
  const given = async <T>(answer: Promise<Answer>): Promise<T> => {
    const value = await answer;
    if (typeof value === 'object' && 'error' in value)
      throw new Fault({ type: 'GenerationRejected', message: value.error });
    return value as T;
  };
  return {
    render: (...question) => given(asked.render(...question)),
    encode: (text) => given(asked.encode(text)),
    decode: (token_ids) => given(asked.decode(token_ids)),
  };
}

export function replayed({ name, answers }: Recorded): CheckedTemplate {
  const answer = (question: unknown): Promise<Answer> => {
    const key = JSON.stringify(question);
    const found = answers[key];
    assert.ok(found !== undefined, `${name}: no rendering of ${key} (test/templates/record.ts)`);
    return Promise.resolve(found);
  };
  return templateOf({
    render: (messages, options) => answer({ messages, ...options }),
    encode: (text) => answer({ text }),
    decode: (token_ids) => answer({ token_ids }),
  });
}
