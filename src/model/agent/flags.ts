import { z } from 'zod';
import type { Patterns } from '../journal.js';

/** The defaults of NeMo RL for what it looks for at the end of a call. */
const TOOL_CALL_PATTERNS = ['<tool_call>', '</tool_call>', '<function_call>', '</function_call>'];
export const THINKING_TAGS = ['<think>', '</think>'];

export const USUAL: Patterns = { invalid_tool_call_patterns: [], thinking_tags: [] };

/** Flags of a generated message for NeMo RL's penalties. They change no token. */
export interface CallFlags {
  /** A tool call was written as text. */
  is_invalid_tool_call: boolean;
  has_malformed_thinking: boolean;
}

const Answer = z.object({ content: z.array(z.unknown()) });
const Reasoning = z.object({ type: z.literal('reasoning'), summary: z.array(z.unknown()) });
const Text = z.object({ text: z.string() });

/**
 * Checks only the first text of the item that has the tokens. In an answer any thinking tag is one too many, in
 * reasoning a second one.
 */
export function flagsOf(item: unknown, patterns: Patterns = USUAL): CallFlags {
  const answer = Text.safeParse(Answer.safeParse(item).data?.content[0]).data?.text;
  const text = answer ?? Text.safeParse(Reasoning.safeParse(item).data?.summary[0]).data?.text;
  if (text === undefined) return { is_invalid_tool_call: false, has_malformed_thinking: false };
  const most = answer === undefined ? 1 : 0;
  const calls = orUsual(patterns.invalid_tool_call_patterns, TOOL_CALL_PATTERNS);
  const tags = orUsual(patterns.thinking_tags, THINKING_TAGS);
  return {
    is_invalid_tool_call: calls.some((pattern) => text.includes(pattern)),
    has_malformed_thinking: tags.some((tag) => text.split(tag).length - 1 > most),
  };
}

export const orUsual = (given: readonly string[], usual: readonly string[]): readonly string[] =>
  given.length === 0 ? usual : given;
