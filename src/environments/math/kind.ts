import { defineKind, inJavaScript } from '../kind.js';
import { graderHealth } from './grader-pool.js';
import { isPureVerifier, MathSettings } from './settings.js';
import { verifierOf, isCorrect, type Verifies } from './verifiers.js';
import type { Environment } from '../environment.js';
import { saidIn } from '../turn.js';
import { observationOf } from './answers.js';
import { answerMetrics } from './metrics.js';
import { groundTruthQuestions, refuseUnanswerable } from './ground-truth.js';

export const math = defineKind({
  settings: MathSettings,
  answers: ({ verifier }) => (isPureVerifier(verifier) ? 'in process' : 'on this machine'),
  roles: ['environment'],
  make: inJavaScript(({ verifier, return_extracted_answer }: MathSettings, { grader }) => ({
    ...createMathEnvironment({ ...verifierOf(verifier, grader), return_extracted_answer }),
    ...(!isPureVerifier(verifier) && graderHealth(grader)),
  })),
});

/** Without a check no ground truth is refused under `standard`. */
type MathOptions = Pick<Verifies, 'verify'> &
  Partial<Pick<Verifies, 'check'>> &
  Pick<MathSettings, 'return_extracted_answer'>;

/** Upstream's maths environment: one answer, one verdict, done. */
export function createMathEnvironment({
  verify,
  check,
  return_extracted_answer,
}: MathOptions): Environment {
  return {
    async step(turn, context) {
      const ground_truth = turn.metadata['ground_truth'];
      const { signal } = context;
      const verdict = await verify({ ground_truth, ...saidIn(turn, context) }, signal);
      const is_right = isCorrect(verdict);
      const is_standard = context.prompt_length !== undefined;
      if (is_standard && check !== undefined && typeof ground_truth === 'string')
        await refuseUnanswerable(check, { ground_truth, is_right, subject: 'math', signal });
      return {
        observation: observationOf(is_right),
        metadata: turn.metadata,
        reward: verdict.score,
        terminated: true,
        ...(return_extracted_answer && { answer: verdict.extracted_answer }),
      };
    },
    ...groundTruthQuestions(check),
    globalPostProcessAndMetrics: answerMetrics,
  };
}
