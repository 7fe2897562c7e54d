import { assistantText, turnsOf } from '../each-sample.js';
import type { Environment } from '../environment.js';
import { observationOf } from '../math/answers.js';
import type { GraderPool } from '../math/grader-pool.js';
import { groundTruthProblems, groundTruthText } from '../math/verifier.js';
import { answerMetrics } from '../math/metrics.js';
import { rejected } from '../rejections.js';
import { type Answered, rewardOf } from './reward-functions.js';
import { needsGrader, type RewardFunction, sumOfWeights } from './settings.js';

export interface VlmOptions {
  reward_functions: RewardFunction[];
  grader: GraderPool;
}

/** Upstream's VLM environment: a weighted sum of reward functions. */
export function createVlmEnvironment({ reward_functions, grader }: VlmOptions): Environment {
  const total = sumOfWeights(reward_functions);

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
    in_process: !reward_functions.some(needsGrader),
    async step(input, { signal }) {
      const rewards = await Promise.all(
        turnsOf('vlm', input).map(async ({ log, metadata }) => {
          const ground_truth = groundTruthText(metadata['ground_truth'], 'vlm');
          return reward({ ground_truth, response: assistantText(log) }, signal);
        }),
      );
      return {
        // Any reward counts as correct, even one for the format alone.
        observations: rewards.map((value) => observationOf(value !== 0)),
        metadata: input.metadata,
        next_stop_strings: rewards.map(() => null),
        rewards,
        terminateds: rewards.map(() => true),
        answers: null,
      };
    },
    sampleProblems: groundTruthProblems,
    globalPostProcessAndMetrics: answerMetrics,
  };
}
