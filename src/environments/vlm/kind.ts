import type { Environment } from '../environment.js';
import { observationOf } from '../math/answers.js';
import { type GraderPool, graderHealth } from '../math/grader-pool.js';
import {
  groundTruthQuestions,
  refuseUnanswerable,
  checkedByGrader,
  gradedAgainstItself,
  type GroundTruthCheck,
} from '../math/ground-truth.js';
import { groundTruthText } from '../math/verifier.js';
import { answerMetrics } from '../math/metrics.js';
import { rejected } from '../rejections.js';
import { saidIn } from '../turn.js';
import { type Answered, rewardOf, boxed, exactAlnum } from './reward-functions.js';
import { type RewardFunction, sumOfWeights, VlmSettings, needsGrader } from './settings.js';
import { boxIn } from './boxes.js';
import { preview } from '../../model/problems.js';
import { defineKind, inJavaScript } from '../kind.js';

/** Upstream's VLM environment: a weighted sum of reward functions. */
function createVlmEnvironment(
  { reward_functions }: Pick<VlmSettings, 'reward_functions'>,
  grader: GraderPool,
): Environment {
  const total = sumOfWeights(reward_functions);
  const check = groundTruthCheckOf(reward_functions, grader);

  const reward = async (answered: Answered, signal: AbortSignal): Promise<number> => {
    const parts = await Promise.all(
      reward_functions.map(async (chosen) => {
        const value = await rewardOf(chosen, { ...answered, grader, signal });
        if (Number.isFinite(value)) return value * (chosen.weight / total);
        const problem = { where: chosen.name, what: `expected a finite reward, got ${value}` };
        throw rejected({ subject: 'vlm: reward functions', problems: [problem] });
      }),
    );
    return parts.reduce((sum, part) => sum + part, 0);
  };

  return {
    async step(turn, context) {
      const { signal } = context;
      const ground_truth = groundTruthText(turn.metadata['ground_truth'], 'vlm');
      const is_standard = context.prompt_length !== undefined;
      const said = saidIn(turn, context);
      const value = await reward({ ground_truth, ...said, is_standard }, signal);
      // A format alone may have been paid for.
      const about = { ground_truth, is_right: false, subject: 'vlm', signal };
      if (is_standard) await refuseUnanswerable(check, about);
      return {
        // Any reward counts as correct, even one for the format alone.
        observation: observationOf(value !== 0),
        metadata: turn.metadata,
        reward: value,
        terminated: true,
      };
    },
    ...groundTruthQuestions(check),
    globalPostProcessAndMetrics: answerMetrics,
  };
}

/** One function may be meant: a ground truth is refused if each that looks at it pays every answer alike. */
function groundTruthCheckOf(
  functions: readonly RewardFunction[],
  grader: GraderPool,
): GroundTruthCheck {
  const asked = checkedByGrader(grader, boxed);
  const checks = functions.flatMap((chosen) => checkOf(chosen, asked) ?? []);
  const firstOf = (problems: (string | null)[]): string | null =>
    problems.length === 0 || problems.includes(null) ? null : (problems[0] ?? null);
  const problemOf: GroundTruthCheck['problemOf'] = (ground_truth) =>
    firstOf(checks.map((check) => check.problemOf(ground_truth)));
  // Others can tell at once.
  if (!checks.every(({ ask }) => ask !== undefined) || checks.length === 0) return { problemOf };
  return { problemOf, ask: asked.ask };
}

function checkOf(chosen: RewardFunction, asked: GroundTruthCheck): GroundTruthCheck | null {
  switch (chosen.name) {
    case 'format':
      return null;
    case 'exact_alnum': {
      const { answer_tag: tag } = chosen.kwargs;
      return gradedAgainstItself({
        isRight: (ground_truth, response) => exactAlnum({ ground_truth, response }, tag) === 1,
        say: (answer) => `<${tag}>${answer}</${tag}>`,
      });
    }
    case 'bbox_giou':
      return {
        problemOf: (ground_truth) =>
          boxIn(ground_truth) === null
            ? `expected a box [x1, y1, x2, y2] with x1 < x2 and y1 < y2, got ${preview(ground_truth)}`
            : null,
      };
    case 'math_expr':
    case 'geo3k':
      return asked;
  }
}

const asksGrader = ({ reward_functions }: VlmSettings): boolean =>
  reward_functions.some(needsGrader);

export const vlm = defineKind({
  settings: VlmSettings,
  answers: (settings) => (asksGrader(settings) ? 'on this machine' : 'in process'),
  roles: ['environment'],
  make: inJavaScript((settings: VlmSettings, { grader }) => ({
    ...createVlmEnvironment(settings, grader),
    ...(asksGrader(settings) && graderHealth(grader)),
  })),
});
