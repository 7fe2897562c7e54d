import { isDigits, strip } from '../../platform/python/text.js';
import { groundTruthText } from './verifier.js';
import type { PureVerifier } from './verifier.js';

/** Upstream's `math_multi_reward`: right, made of digits, well formed; each 0 or 1. */
export const verifyMultiReward: PureVerifier = ({ ground_truth, response, whole = response }) => {
  const expected = groundTruthText(ground_truth, 'multi_reward');
  const extracted_answer = answerOf(response);
  return {
    score: {
      'reward/correctness': Number(extracted_answer === expected),
      'reward/integer': Number(isDigits(extracted_answer)),
      'reward/format': Number(isWellFormed(whole)),
    },
    extracted_answer,
  };
};

const OPEN = '<answer>';
const CLOSE = '</answer>';
const THINK = '<think>';
const BETWEEN = `</think>\n${OPEN}`;

/** The content of the last answer tag, up to the first closing tag after it; without tags the whole text. */
function answerOf(text: string): string {
  const start = text.lastIndexOf(OPEN);
  const rest = start === -1 ? text : text.slice(start + OPEN.length);
  const end = rest.indexOf(CLOSE);
  return strip(end === -1 ? rest : rest.slice(0, end));
}

/** `<think>…</think>`, a newline, `<answer>…</answer>` and nothing else except a last newline; exactly one answer. */
function isWellFormed(text: string): boolean {
  const isSingle = (tag: string): boolean =>
    text.includes(tag) && text.indexOf(tag) === text.lastIndexOf(tag);
  if (!isSingle(OPEN) || !isSingle(CLOSE) || !text.startsWith(THINK)) return false;
  const between = text.indexOf(BETWEEN, THINK.length);
  const end = text.endsWith('\n') ? text.length - 1 : text.length;
  const close = end - CLOSE.length;
  return between !== -1 && close >= between + BETWEEN.length && text.startsWith(CLOSE, close);
}
