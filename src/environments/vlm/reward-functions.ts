import { strip } from '../../platform/python/text.js';
import { compareBounded } from '../math/answers.js';
import type { GraderPool } from '../math/grader-pool.js';
import type { Said } from '../turn.js';
import { BOXED, lastBoxed } from '../math/dapo.js';
import { boxReward, upstreamBoxReward } from './boxes.js';
import type { RewardFunction } from './settings.js';

/** Upstream's reward functions (`environments/rewards.py`); a malformed answer scores 0, and 1 is the most. */

export interface Answered extends Said {
  ground_truth: string;
  /** false: upstream's rules. */
  is_standard: boolean;
}

/** 0.25 for the thoughts, 0.75 for the answer. */
function format({ whole }: Answered, tags: { think_tag: string; answer_tag: string }): number {
  const thoughts = taggedText(whole, tags.think_tag) === null ? 0 : 0.25;
  return thoughts + (taggedText(whole, tags.answer_tag) === null ? 0 : 0.75);
}

/** Letters and digits of every script, as Python's `str.isalnum`. */
const alphanumeric = (text: string): string => text.replaceAll(/[^\p{L}\p{N}]/gu, '').toLowerCase();

export function exactAlnum(
  { ground_truth, response }: Pick<Answered, 'ground_truth' | 'response'>,
  tag: string,
): number {
  const answer = taggedText(response, tag);
  return answer !== null && alphanumeric(answer) === alphanumeric(ground_truth) ? 1 : 0;
}

interface BoxOptions {
  giou_penalty_thres: number;
  answer_tag: string;
}

function bboxGiou(
  { ground_truth, response, is_standard }: Answered,
  { answer_tag, giou_penalty_thres }: BoxOptions,
): number {
  const answer = taggedText(response, answer_tag);
  const compared = { ground_truth, answer, penalty_threshold: giou_penalty_thres };
  return is_standard ? boxReward(compared) : upstreamBoxReward(compared);
}

export const boxed = (text: string): string =>
  text.startsWith('\\boxed{') ? text : `\\boxed{${text}}`;

/** How maths is compared: the score of two LaTeX texts. */
type Equal = (gold: string, answer: string) => Promise<number>;

async function mathExpr(
  { ground_truth, response }: Answered,
  { tag, equal }: { tag: string; equal: Equal },
): Promise<number> {
  const answer = taggedText(response, tag);
  return answer === null ? 0 : equal(boxed(ground_truth), boxed(answer));
}

async function geo3k(
  { ground_truth, response, whole }: Answered,
  { format_score, equal }: { format_score: number; equal: Equal },
): Promise<number> {
  const answer = boxedText(response);
  const score = answer === null ? 0 : await equal(boxed(ground_truth), boxed(answer));
  const accuracy = score > 0.1 ? 1 : 0;
  return (1 - format_score) * accuracy + format_score * (endsInBox(whole) ? 1 : 0);
}

/** Upstream's `</think>.*\\boxed\{.*\}` over lines. */
function endsInBox(response: string): boolean {
  const box = indexAfter(response, { token: '\\boxed{', from: indexAfter(response, THOUGHT) });
  return indexAfter(response, { token: '}', from: box }) >= 0;
}

const THOUGHT = { token: '</think>', from: 0 };

function indexAfter(text: string, { token, from }: { token: string; from: number }): number {
  const at = from < 0 ? -1 : text.indexOf(token, from);
  return at < 0 ? -1 : at + token.length;
}

/** The reward of one function; `signal` ends a comparison. */
export async function rewardOf(
  chosen: RewardFunction,
  { grader, signal, ...answered }: Answered & { grader: GraderPool; signal: AbortSignal },
): Promise<number> {
  const equal: Equal = async (gold, answer) =>
    (await compareBounded(grader, { gold, answer, signal })).score;
  switch (chosen.name) {
    case 'format':
      return format(answered, chosen.kwargs);
    case 'exact_alnum':
      return exactAlnum(answered, chosen.kwargs.answer_tag);
    case 'math_expr':
      return mathExpr(answered, { ...chosen.kwargs, equal });
    case 'bbox_giou':
      return bboxGiou(answered, chosen.kwargs);
    case 'geo3k':
      return geo3k(answered, { ...chosen.kwargs, equal });
  }
}

/** The text between `<tag>` and the last `</tag>`, as a greedy regex finds it, in linear time; null without tags. */
export function taggedText(text: string, tag: string): string | null {
  const open = `<${tag}>`;
  const start = text.indexOf(open);
  const end = text.lastIndexOf(`</${tag}>`);
  return start >= 0 && end >= start + open.length ? text.slice(start + open.length, end) : null;
}

/** The content of the last `\boxed{…}` up to its own closing brace; null without one. */
export function boxedText(text: string): string | null {
  const box = lastBoxed(text);
  return box === null ? null : strip(box.slice(BOXED.length, -1));
}
