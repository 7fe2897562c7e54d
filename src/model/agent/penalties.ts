import { z } from 'zod';
import { strip } from '../../platform/python/text.js';
import type { Shaping } from '../journal.js';
import type { RewardPenalties } from './shaping-settings.js';
import type { AgentMessage } from './tokens.js';

/** With the ids of the thinking tags, where the settings have none and each tag is one token. */
export function withTagIds(
  penalties: RewardPenalties,
  [think_open, think_close]: readonly (number | null)[],
): RewardPenalties {
  const { token_ids } = penalties;
  const isGiven = token_ids.think_open !== null;
  if (isGiven || think_open == null || think_close == null) return penalties;
  return { ...penalties, token_ids: { ...token_ids, think_open, think_close } };
}

/** The mistakes, each with its switch and with upstream's name of the share of rollouts that have it. */
export const PENALTIES = {
  duplicated_reasoning: {
    flag: 'penalize_duplicated_reasoning',
    rate: 'reasoning_equal_to_final_answer_rate',
  },
  empty_final_answer: { flag: 'penalize_empty_final_answer', rate: 'empty_final_answer_rate' },
  unwanted_token: { flag: 'penalize_unwanted_tokens', rate: 'unwanted_token_rate' },
  malformed_think_tag: { flag: 'penalize_malformed_think_tag', rate: 'malformed_think_tag_rate' },
} as const;
export type Penalty = keyof typeof PENALTIES;
export const PENALTY_NAMES = Object.keys(PENALTIES) as Penalty[];

/** Mistakes that were looked for, and whether the answer has them. */
type Penalised = NonNullable<Shaping['penalties']>;

export interface Judged {
  /** `response.output` */
  output: readonly unknown[];
  messages: readonly AgentMessage[];
  /** What each call generated, as text with its special tokens; null: nobody decodes it. */
  texts: readonly string[] | null;
  /** What opens and what closes a thought. */
  thinking_tags: readonly string[];
}

/** null: all are switched off. */
export function penalisedFor(penalties: RewardPenalties, judged: Judged): Penalised | null {
  const looked = PENALTY_NAMES.filter((name) => penalties[PENALTIES[name].flag]);
  if (looked.length === 0) return null;
  return Object.fromEntries(looked.map((name) => [name, MISTAKES[name](judged, penalties)]));
}

const MISTAKES: Record<Penalty, (judged: Judged, penalties: RewardPenalties) => boolean> = {
  duplicated_reasoning: ({ output }) =>
    output.slice(0, -1).some((item, index) => repeats(item, output[index + 1])),
  empty_final_answer: ({ output }) =>
    Typed.safeParse(output.at(-1)).data?.type !== 'function_call' && lastTextOf(output) === '',
  unwanted_token: ({ messages }, { token_ids: { unwanted } }) => {
    const ids = new Set(unwanted);
    return generated(messages).some(({ token_ids }) => token_ids.some((id) => ids.has(id)));
  },
  malformed_think_tag: (judged, { token_ids }) =>
    generated(judged.messages).some(({ has_malformed_thinking }) => has_malformed_thinking) ||
    miscounts(judged.messages, token_ids) ||
    spells(judged),
};

const Typed = z.object({ type: z.string() });
const Text = z.object({ text: z.string() });
const Reasoning = z.object({ type: z.literal('reasoning'), summary: z.array(z.unknown()) });
const WithContent = z.object({ content: z.union([z.string(), z.array(z.unknown())]) });

const generated = (messages: readonly AgentMessage[]): AgentMessage[] =>
  messages.filter(({ role }) => role === 'assistant');

/** The text of a content, or of the first part of a list; undefined: it has none. */
function textOf(item: unknown): string | undefined {
  const { content } = WithContent.safeParse(item).data ?? {};
  const text = Array.isArray(content) ? Text.safeParse(content[0]).data?.text : content;
  return text === undefined ? undefined : strip(text);
}

function repeats(item: unknown, next: unknown): boolean {
  const [first] = Reasoning.safeParse(item).data?.summary ?? [];
  const thought = strip(Text.safeParse(first).data?.text ?? '');
  return thought !== '' && thought === textOf(next);
}

/** Empty also where there is none. */
function lastTextOf(output: readonly unknown[]): string {
  for (const item of output.toReversed()) {
    const text = textOf(item);
    if (text !== undefined) return text;
  }
  return '';
}

/**
 * Whether a call's tags do not fit its prompt: a prompt that leaves a thought open asks for one closing tag, any other
 * for none.
 */
function miscounts(
  messages: readonly AgentMessage[],
  { think_open, think_close }: RewardPenalties['token_ids'],
): boolean {
  if (think_open === null || think_close === null) return false;
  const count = ({ token_ids }: AgentMessage, tag: number): number =>
    token_ids.filter((id) => id === tag).length;
  return messages.some((call, index) => {
    const prompt = messages[index - 1];
    if (call.role !== 'assistant' || prompt?.role !== 'user') return false;
    const left = count(prompt, think_open) - count(prompt, think_close);
    return left < 0 || left > 1 || count(call, think_open) > 0 || count(call, think_close) !== left;
  });
}

/** Whether a tag is there as text, which other tokens may spell. */
function spells({ texts, thinking_tags: [open = '', close = ''] }: Judged): boolean {
  const times = (text: string, tag: string): number => text.split(tag).length - 1;
  return (texts ?? []).some((text) => times(text, open) > 0 || times(text, close) > 1);
}
