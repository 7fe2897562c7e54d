import type { Environment } from '../environment.js';
import { observationOf } from '../math/answers.js';
import type { GraderPool } from '../math/grader-pool.js';
import { groundTruthQuestions, refuseUnanswerable } from '../math/ground-truth.js';
import { groundTruthText } from '../math/verifier.js';
import { answerMetrics } from '../math/metrics.js';
import { rejected } from '../rejections.js';
import { saidIn } from '../turn.js';
import { groundTruthCheckOf } from './ground-truth.js';
import { type Answered, rewardOf } from './reward-functions.js';
import { type RewardFunction, sumOfWeights } from './settings.js';

export interface VlmOptions {
  reward_functions: RewardFunction[];
  grader: GraderPool;
}

/** Upstream's VLM environment: a weighted sum of reward functions. */
export function createVlmEnvironment({ reward_functions, grader }: VlmOptions): Environment {
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
