import { Fault } from '../../model/faults.js';
import { preview, type Problem } from '../../model/problems.js';
import { utf8Length } from '../../platform/utf8.js';
import type { Environment, Metadata } from '../environment.js';
import { rejected } from '../rejections.js';
import { compareBounded, MAX_BYTES } from './answers.js';
import type { GraderPool } from './grader-pool.js';
import type { Pair } from './grader-process.js';
import { groundTruthProblems } from './verifier.js';

/**
 * Ground truths that pay every answer alike, found by grading them against themselves. Under `standard` they are
 * refused: at planning where it can be known, else when a rollout is graded. Each function returns what is wrong with
 * one, or null.
 */
export interface GroundTruthCheck {
  problemOf: (ground_truth: string) => string | null;
  /** Asks the grader for what only it can tell of ground truths without another problem; absent: it is not needed. */
  ask?: (ground_truth: string, signal: AbortSignal) => Promise<string | null>;
}

export interface SelfGraded {
  isRight: (ground_truth: string, response: string) => boolean;
  /** The response that gives this answer in the form that is asked for. */
  say: (answer: string) => string;
}

export const gradedAgainstItself = ({ isRight, say }: SelfGraded): GroundTruthCheck => ({
  problemOf(ground_truth) {
    if (isRight(ground_truth, '') || isRight(ground_truth, say('')))
      return `expected a text that an empty answer does not match, got ${preview(ground_truth)}`;
    return problemWith(ground_truth, (answer) => isRight(ground_truth, say(answer)));
  },
});

function problemWith(ground_truth: string, isRight: (answer: string) => boolean): string | null {
  if (!isRight(ground_truth))
    return `expected a ground truth that is rewarded as an answer, got ${preview(ground_truth)}, which is not`;
  const marked = markedAnswer(ground_truth);
  return marked === null || isRight(marked) ? null : partProblem(ground_truth, marked);
}

const partProblem = (ground_truth: string, marked: string): string =>
  `expected the answer alone, which is perhaps ${preview(marked)}, got ${preview(ground_truth)}`;

/** Text that is known to be no part of an answer. GSM8K's solutions end with `#### 42`. */
const MARKS = ['####', '<answer>', 'Answer:', 'answer:', 'answer is'];

/** The part of a ground truth that it marks as the answer, which alone policies write; null: it marks none. */
export function markedAnswer(text: string): string | null {
  let answer = text;
  for (const mark of MARKS) {
    const at = answer.lastIndexOf(mark);
    if (at !== -1) answer = answer.slice(at + mark.length);
  }
  const close = answer.indexOf('</answer>');
  if (close !== -1) answer = answer.slice(0, close);
  answer = answer.trim();
  if (/\d\.$/.test(answer)) answer = answer.slice(0, -1);
  return answer === '' || answer === text.trim() ? null : answer;
}

const MOST_KNOWN = 4096;

/** Checks with math-verify. `box` is how a text becomes the grader's gold, and the answer. */
export function checkedByGrader(
  grader: GraderPool,
  box: (text: string) => string,
): Required<GroundTruthCheck> {
  const known = new Map<string, string | null>();
  const isRight = async ({
    gold,
    answer,
    signal,
  }: Pair & { signal: AbortSignal }): Promise<boolean> =>
    (await compareBounded(grader, { gold: box(gold), answer: box(answer), signal })).score > 0;
  const find = async (ground_truth: string, signal: AbortSignal): Promise<string | null> => {
    const marked = markedAnswer(ground_truth);
    const right = new Map<string, boolean>();
    for (const answer of [ground_truth, ...(marked === null ? [] : [marked])])
      right.set(answer, await isRight({ gold: ground_truth, answer, signal }));
    return problemWith(ground_truth, (answer) => right.get(answer) === true);
  };
  return {
    problemOf(ground_truth) {
      const bytes = utf8Length(ground_truth);
      if (bytes > MAX_BYTES) return `expected at most ${MAX_BYTES} bytes, got ${bytes}`;
      return ground_truth.trim() === '' ? `expected an answer, got ${preview(ground_truth)}` : null;
    },
    async ask(ground_truth, signal) {
      const before = known.get(ground_truth);
      if (before !== undefined) return before;
      let problem: string | null;
      try {
        problem = await find(ground_truth, signal);
      } catch (error) {
        signal.throwIfAborted();
        // No verdict on the ground truth changes no verdict on a response.
        if (error instanceof Fault) return null;
        throw error;
      }
      if (known.size >= MOST_KNOWN) known.clear();
      known.set(ground_truth, problem);
      return problem;
    },
  };
}

/** Throws `EnvironmentRejected` for a ground truth with a problem. */
export async function refuseUnanswerable(
  check: GroundTruthCheck,
  {
    ground_truth,
    ...of
  }: { ground_truth: string; is_right: boolean; subject: string; signal: AbortSignal },
): Promise<void> {
  // A reward that was paid shows that it can be got.
  const what =
    check.problemOf(ground_truth) ??
    (of.is_right ? null : await check.ask?.(ground_truth, of.signal)) ??
    null;
  if (what !== null) throw rejected({ subject: of.subject, problems: named(what) });
}

/** What an environment's samples are asked at planning. */
export const groundTruthQuestions = (
  check: GroundTruthCheck | undefined,
): Pick<Environment, 'sampleProblems' | 'askAboutSample'> => ({
  sampleProblems({ ground_truth }, { is_standard }) {
    const problems = groundTruthProblems({ ground_truth });
    if (typeof ground_truth !== 'string' || !is_standard) return problems;
    return named(check?.problemOf(ground_truth));
  },
  ...(check?.ask && {
    askAboutSample: async ({ ground_truth }: Metadata, signal: AbortSignal) =>
      typeof ground_truth === 'string' ? named(await check.ask?.(ground_truth, signal)) : [],
  }),
});

const named = (what: string | null | undefined): Problem[] =>
  typeof what === 'string' ? [{ where: 'ground_truth', what }] : [];
