import type { Environment, EnvironmentReturn } from '../environment.js';
import { assistantText, turnsOf } from '../each-sample.js';
import { observationOf } from './answers.js';
import { answerMetrics } from './metrics.js';
import type { Verdict, Verifier } from './verifier.js';
import { groundTruthProblems } from './verifier.js';

export interface MathOptions {
  verify: Verifier;
  in_process: boolean;
  return_extracted_answer: boolean;
}

/** Upstream's maths environment: one answer, one verdict, done. */
export function createMathEnvironment({
  verify,
  in_process,
  return_extracted_answer,
}: MathOptions): Environment {
  return {
    in_process,
    async step(input, { signal }) {
      const turns = turnsOf('math', input);
      const verdicts = await Promise.all(
        turns.map(({ log, metadata }) =>
          verify({ ground_truth: metadata['ground_truth'], response: assistantText(log) }, signal),
        ),
      );
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
    sampleProblems: groundTruthProblems,
    globalPostProcessAndMetrics: answerMetrics,
  };
}

/** With several components, the observation reports correctness. */
const CORRECTNESS = 'reward/correctness';

const isCorrect = ({ score }: Verdict): boolean =>
  (typeof score === 'number' ? score : (score[CORRECTNESS] ?? 0)) !== 0;

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
