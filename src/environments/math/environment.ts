import type { Environment, EnvironmentReturn } from '../environment.js';
import { saidIn, type Turn, turnsOf } from '../each-sample.js';
import { observationOf } from './answers.js';
import { answerMetrics } from './metrics.js';
import { type GroundTruthCheck, groundTruthQuestions, refuseUnanswerable } from './ground-truth.js';
import type { Verdict, Verifier } from './verifier.js';
import { isCorrect } from './verifiers.js';

export interface MathOptions {
  verify: Verifier;
  /** Which ground truths are refused under `standard`; absent: none. */
  check?: GroundTruthCheck;
  return_extracted_answer: boolean;
}

/** Upstream's maths environment: one answer, one verdict, done. */
export function createMathEnvironment({
  verify,
  check,
  return_extracted_answer,
}: MathOptions): Environment {
  const judge = async (turn: Turn, signal: AbortSignal): Promise<Verdict> => {
    const ground_truth = turn.metadata['ground_truth'];
    const verdict = await verify({ ground_truth, response: saidIn(turn) }, signal);
    if (turn.prompt_length !== null && check !== undefined && typeof ground_truth === 'string') {
      const is_right = isCorrect(verdict);
      await refuseUnanswerable(check, { ground_truth, is_right, subject: 'math', signal });
    }
    return verdict;
  };
  return {
    async step(input, { signal, standard }) {
      const turns = turnsOf('math', { ...input, standard });
      const verdicts = await Promise.all(turns.map((turn) => judge(turn, signal)));
      return {
        observations: verdicts.map((verdict) => observationOf(isCorrect(verdict))),
        metadata: input.metadata,
        next_stop_strings: verdicts.map(() => null),
        rewards: rewardsOf(verdicts),
        terminateds: verdicts.map(() => true),
        answers: return_extracted_answer
          ? verdicts.map(({ extracted_answer }) => extracted_answer)
          : null,
      };
    },
    ...groundTruthQuestions(check),
    globalPostProcessAndMetrics: answerMetrics,
  };
}

/** All verdicts of a verifier have the same form: a number, or the same components. */
function rewardsOf(verdicts: Verdict[]): EnvironmentReturn['rewards'] {
  const components = new Map<string, number[]>();
  const plain: number[] = [];
  for (const { score } of verdicts) {
    if (typeof score === 'number') plain.push(score);
    else {
      for (const [name, value] of Object.entries(score)) {
        components.set(name, [...(components.get(name) ?? []), value]);
      }
    }
  }
  return components.size === 0 ? plain : Object.fromEntries(components);
}
