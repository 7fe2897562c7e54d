import { z } from 'zod';
import { strip } from '../../platform/python/text.js';
import type { Shaping } from '../journal.js';
import { TokenId } from '../token-id.js';
import { TokenIds } from '../untrusted.js';

const flag = (what: string) => z.boolean().default(false).describe(`reward 0 if ${what}`);

/** NeMo RL's `reward_penalties`: mistakes that make a reward 0. */
export const RewardPenalties = z
  .strictObject({
    penalize_duplicated_reasoning: flag('an answer repeats the reasoning before it word for word'),
    penalize_empty_final_answer: flag('the last message is empty, or there is none'),
    penalize_unwanted_tokens: flag('a call sampled one of `token_ids.unwanted`'),
    penalize_malformed_think_tag: flag('a call opens a thought, or does not close it once'),
    token_ids: z
      .strictObject({
        unwanted: TokenIds.default([]).describe('ids that no call may sample'),
        think_open: TokenId.nullable()
          .default(null)
          .describe('the id of the tag that opens a thought; null: ids of tags are not counted'),
        think_close: TokenId.nullable().default(null).describe('the id of the tag that closes it'),
      })
      .prefault({})
      .describe('ids of the model'),
  })
  .superRefine((penalties, context) => {
    const { unwanted, think_open, think_close } = penalties.token_ids;
    const refuse = (message: string): void => {
      context.addIssue({ code: 'custom', path: ['token_ids'], message });
    };
    if (penalties.penalize_unwanted_tokens && unwanted.length === 0)
      refuse('expected ids as unwanted, since penalize_unwanted_tokens is true, got none');
    if ((think_open === null) !== (think_close === null))
      refuse('expected both think_open and think_close, or neither, got one');
  });
export type RewardPenalties = z.infer<typeof RewardPenalties>;

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

export interface PlayedCall {
  /** Beyond the call before it. */
  prompt_ids: readonly number[];
  token_ids: readonly number[];
  /** What it sampled, with its special tokens. */
  text: string;
  /** What its agent read of that: the content, or without one the reasoning; null: its last item is a tool call. */
  read: { content: string } | { reasoning: string } | null;
}

export interface Judged {
  /** `response.output` */
  output: readonly unknown[];
  calls: readonly PlayedCall[];
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
  unwanted_token: ({ calls }, { token_ids: { unwanted } }) => {
    const ids = new Set(unwanted);
    return calls.some(({ token_ids }) => token_ids.some((id) => ids.has(id)));
  },
  malformed_think_tag: ({ calls, thinking_tags }, { token_ids }) =>
    calls.some(
      (call) =>
        isMalformed(call, thinking_tags) ||
        miscounts(call, token_ids) ||
        spells(call, thinking_tags),
    ),
};

const times = (text: string, tag: string): number => text.split(tag).length - 1;

/** In an answer any thinking tag is one too many, in reasoning a second one. */
function isMalformed({ read }: PlayedCall, tags: readonly string[]): boolean {
  if (read === null) return false;
  const [text, most] = 'content' in read ? [read.content, 0] : [read.reasoning, 1];
  return tags.some((tag) => times(text, tag) > most);
}

const Typed = z.object({ type: z.string() });
const Text = z.object({ text: z.string() });
const Reasoning = z.object({ type: z.literal('reasoning'), summary: z.array(z.unknown()) });
const WithContent = z.object({ content: z.union([z.string(), z.array(z.unknown())]) });

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

/** A prompt that leaves a thought open asks for one closing tag, any other for none. */
function miscounts(
  { prompt_ids, token_ids }: PlayedCall,
  { think_open, think_close }: RewardPenalties['token_ids'],
): boolean {
  if (think_open === null || think_close === null) return false;
  const count = (ids: readonly number[], tag: number): number =>
    ids.filter((id) => id === tag).length;
  const left = count(prompt_ids, think_open) - count(prompt_ids, think_close);
  const isOpened = count(token_ids, think_open) > 0;
  return left < 0 || left > 1 || isOpened || count(token_ids, think_close) !== left;
}

/** Whether a tag is there as text, which other tokens may spell. */
const spells = ({ text }: PlayedCall, [open = '', close = '']: readonly string[]): boolean =>
  times(text, open) > 0 || times(text, close) > 1;
