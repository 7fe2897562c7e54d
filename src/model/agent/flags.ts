import { z } from 'zod';

/** The defaults of NeMo RL for what it looks for at the end of a call. */
const TOOL_CALL_PATTERNS = ['<tool_call>', '</tool_call>', '<function_call>', '</function_call>'];
const THINKING_TAGS = ['<think>', '</think>'];

/** Flags of a generated message for NeMo RL's penalties. They change no token. */
export interface CallFlags {
  /** A tool call was written as text. */
  is_invalid_tool_call: boolean;
  has_malformed_thinking: boolean;
}

const Answer = z.object({ content: z.array(z.unknown()) });
const Reasoning = z.object({ summary: z.array(z.unknown()) });
const Text = z.object({ text: z.string() });

/**
 * Checks only the first text of the item that has the tokens. In an answer any thinking tag is one too many, in
 * reasoning a second one.
 */
export function flagsOf(item: unknown): CallFlags {
  const answer = Text.safeParse(Answer.safeParse(item).data?.content[0]).data?.text;
  const text = answer ?? Text.safeParse(Reasoning.safeParse(item).data?.summary[0]).data?.text;
  if (text === undefined) return { is_invalid_tool_call: false, has_malformed_thinking: false };
  const most = answer === undefined ? 1 : 0;
  return {
    is_invalid_tool_call: TOOL_CALL_PATTERNS.some((pattern) => text.includes(pattern)),
    has_malformed_thinking: THINKING_TAGS.some((tag) => text.split(tag).length - 1 > most),
  };
}
