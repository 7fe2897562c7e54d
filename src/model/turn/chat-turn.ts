import type { ForeignObject } from '../foreign-object.js';
import type { Content } from '../content.js';
import type { Tools } from '../journal/agent-lines.js';

/**
 * How a chat template continues after an answer. A conversation is never rendered again: the template renders one short
 * conversation that ends with the new message, and what it renders after the answer is appended.
 */

export interface ChatMessage {
  role: string;
  content: Content;
}

/** What a generation service offers for rendering with its chat templates. */
export interface Renderer {
  /** Ids of the rendered conversation (the server's chat template). */
  renderChat(
    chat: {
      model: string;
      messages: readonly ChatMessage[];
      add_generation_prompt: boolean;
      chat_template_kwargs: ForeignObject;
      /** Functions that the policy may call, in OpenAI's form; absent: none. */
      tools?: Tools;
    },
    signal: AbortSignal,
  ): Promise<number[]>;
  tokenize(
    input: { model: string; text: string; add_special_tokens: boolean },
    signal: AbortSignal,
  ): Promise<number[]>;
  /** Text of ids; special tokens are shown. */
  detokenize(
    input: { model: string; token_ids: readonly number[] },
    signal: AbortSignal,
  ): Promise<string>;
}

/** Ids of a conversation, with or without the generation prompt. */
export type Render = (
  messages: readonly ChatMessage[],
  options: { add_generation_prompt: boolean },
) => Promise<number[]>;

/** Placeholder answers that differ in their first and last tokens in any vocabulary. */
export const ANSWERS = ['one', 'two'] as const;
export const QUESTION: ChatMessage = { role: 'user', content: 'go' };
const NEWS = ['news', 'more'] as const;

const placeholder = (answer: string): ChatMessage[] => [
  QUESTION,
  { role: 'assistant', content: answer },
];

/** A short conversation that ends with the message after an answer. */
export const messagesAfterAnswer = (message: ChatMessage): ChatMessage[] => [
  ...placeholder(ANSWERS[0]),
  message,
];

export interface TurnSeam {
  /** What it renders up to the end of the placeholder's answer. */
  before: number[];
  /** Messages of this role are not rendered at all. */
  is_dropped: boolean;
}

/** `thought`: what the placeholder's answers begin with. */
export async function findSeam(
  render: Render,
  { role, thought = '' }: { role: string; thought?: string },
): Promise<TurnSeam> {
  const ask = (answer: string, content: string): Promise<number[]> =>
    render([...placeholder(thought + answer), { role, content }], { add_generation_prompt: true });
  const [one, two, more] = await Promise.all([
    ask(ANSWERS[0], NEWS[0]),
    ask(ANSWERS[1], NEWS[0]),
    ask(ANSWERS[0], NEWS[1]),
  ]);
  return {
    before: one.slice(0, one.length - commonSuffix(one, two)),
    is_dropped: one.length === more.length && commonPrefix(one, more) === one.length,
  };
}

/** The ids after the answer; null: the template renders something other than `seam` before them. */
export async function renderAfterAnswer(
  render: Render,
  { seam, message }: { seam: TurnSeam; message: ChatMessage },
): Promise<number[] | null> {
  const ids = await render(messagesAfterAnswer(message), { add_generation_prompt: true });
  const { before } = seam;
  return commonPrefix(ids, before) === before.length ? ids.slice(before.length) : null;
}

export const droppedRole = (role: string): string =>
  `the chat template leaves out messages of role ${role}`;

export const ROLE_MAP =
  'map it to a role that is rendered (temporal.yaml: role_map of the generation service)';

export function commonPrefix(a: readonly number[], b: readonly number[]): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length += 1;
  return length;
}

const commonSuffix = (a: readonly number[], b: readonly number[]): number =>
  commonPrefix(a.toReversed(), b.toReversed());
