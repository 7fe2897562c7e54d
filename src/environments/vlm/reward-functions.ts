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

/** Letters and digits of every script, as Python's `str.isalnum`. */
const alphanumeric = (text: string): string => text.replaceAll(/[^\p{L}\p{N}]/gu, '').toLowerCase();

export function exactAlnum(
  { ground_truth, response }: Pick<Answered, 'ground_truth' | 'response'>,
  tag: string,
): number {
  const answer = taggedText(response, tag);
  return answer !== null && alphanumeric(answer) === alphanumeric(ground_truth) ? 1 : 0;
}

export const boxed = (text: string): string =>
  text.startsWith('\\boxed{') ? text : `\\boxed{${text}}`;

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
  const { ground_truth, response, whole, is_standard } = answered;
  const isTagged = (tag: string): boolean => taggedText(whole, tag) !== null;
  const maths = async (answer: string | null): Promise<number> => {
    if (answer === null) return 0;
    const pair = { gold: boxed(ground_truth), answer: boxed(answer) };
    return (await compareBounded(grader, { ...pair, signal })).score;
  };
  switch (chosen.name) {
    case 'format': {
      const { think_tag, answer_tag } = chosen.kwargs;
      return (isTagged(think_tag) ? 0.25 : 0) + (isTagged(answer_tag) ? 0.75 : 0);
    }
    case 'exact_alnum':
      return exactAlnum(answered, chosen.kwargs.answer_tag);
    case 'math_expr':
      return maths(taggedText(response, chosen.kwargs.tag));
    case 'bbox_giou': {
      const { answer_tag, giou_penalty_thres: penalty_threshold } = chosen.kwargs;
      const compared = {
        ground_truth,
        answer: taggedText(response, answer_tag),
        penalty_threshold,
      };
      return is_standard ? boxReward(compared) : upstreamBoxReward(compared);
    }
    case 'geo3k': {
      const { format_score } = chosen.kwargs;
      const accuracy = (await maths(boxedText(response))) > 0.1 ? 1 : 0;
      return (1 - format_score) * accuracy + format_score * (endsInBox(whole) ? 1 : 0);
    }
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
