import type { Program } from '../../journal/agent-lines.js';
import type { Said } from '../message.js';
import type { ReadCalls } from './hermes.js';
import { readHermes } from './hermes.js';
import { splitThought } from './thought.js';

/** How the text of an answer is read: its thoughts, its tool calls, and what is neither. */

export type Parsers = Pick<Program, 'tool_parser' | 'reasoning_parser'>;

export interface ReadAnswer extends ReadCalls {
  reasoning?: string;
}

export interface Reading extends Parsers {
  /** Calls behind the first are not told. */
  one_tool_call?: boolean;
}

/**
 * Reads the text of an answer, with special tokens shown but without the one that ends it. One that has not `ended` may
 * grow: then the result has only what no further text changes, and each later result begins with it.
 */
export function readAnswer(
  text: string,
  { tool_parser, reasoning_parser, one_tool_call = false, ended }: Reading & { ended: boolean },
): ReadAnswer {
  const { rest, ...thought } =
    reasoning_parser === 'none'
      ? { rest: text }
      : splitThought(text, { opened: reasoning_parser === 'deepseek_r1', ended });
  const read: ReadCalls =
    tool_parser === 'hermes'
      ? readHermes(rest, { ended })
      : { content: rest, calls: [], malformed: 0 };
  const { calls, calls_at, ...said } = read;
  const most = one_tool_call ? 1 : calls.length;
  return {
    ...thought,
    ...said,
    calls: calls.slice(0, most),
    ...(calls_at !== undefined && { calls_at: calls_at.slice(0, most) }),
  };
}

/** Ids of tool calls are a function of the answer, so a client that asks again gets the same. */
export const callId = (turn: number, index: number): string => `call_${turn}_${index}`;

/** A whole answer as the journal and agents have it. */
export const saidIn = (text: string, { turn, ...parsers }: Reading & { turn: number }): Said => {
  const { calls, ...said } = readAnswer(text, { ...parsers, ended: true });
  return {
    ...said,
    tool_calls: calls.map((call, index) => ({ id: callId(turn, index), ...call })),
  };
};
