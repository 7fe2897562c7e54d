import type { Conversation } from '../../src/gateway/play/engine.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import type { Parsers } from '../../src/model/calls/parsers/read-answer.js';

/**
 * A chat template of characters, as most are: it drops thoughts of earlier answers and writes arguments anew, so that a
 * conversation that is rendered again is another one. `~` ends a turn.
 */

export const END = '~'.charCodeAt(0);
export const PARSERS: Parsers = { tool_parser: 'hermes', reasoning_parser: 'qwen3' };

const STEP = 1000;
export const decode = (ids: readonly number[]): string =>
  String.fromCharCode(...ids.map((id) => id % STEP));
export const encode = (text: string): number[] => Array.from(text, (one) => one.charCodeAt(0));
/** Ids that no other text has: a policy's tokens are seldom those of its text. */
export const sampledIds = (text: string, nth: number): number[] =>
  encode(text).map((code) => (code === END ? END : (nth + 1) * STEP + code));

const turnText = ({ role, content, tool_calls = [] }: CallMessage): string =>
  `${role}:${content}${tool_calls.map(({ name, arguments: given }) => `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(JSON.parse(given))}}</tool_call>`).join('')}~`;

/** Behind the end of an answer's turn. */
export const newsText = (news: readonly CallMessage[]): string =>
  `${news.map(turnText).join('')}assistant:`;

export const render = ({ messages, tools }: Conversation): number[] =>
  encode(`${tools === null ? '' : `tools:${tools.hash}~`}${newsText(messages)}`);
