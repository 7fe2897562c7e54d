import { z } from 'zod';
import { defineKind, inJavaScript } from '../kind.js';
import type { Environment, FinishedRollouts, Turn, TurnAnswer } from '../environment.js';
import { createFloat32Mean } from '../../platform/python/numbers.js';
import { parsedInfo } from '../rejections.js';
import { environmentSays, stepNow } from '../turn.js';
import { CalculatorMetadata, reply } from './turn.js';

export const calculator = defineKind({
  settings: z.strictObject({
    kind: z.literal('calculator').describe("NeMo RL's multi-step calculator"),
  }),
  answers: () => 'in process',
  roles: ['environment'],
  make: inJavaScript(createCalculator),
});

/** Upstream's multi-step calculator: it answers calls until the policy gives the final answer, for reward 1 or 0. */
export function createCalculator(): Environment {
  return {
    step: stepNow(answerTurn),
    globalPostProcessAndMetrics: async (rollouts) => ({
      success_rate: await successRate(rollouts),
    }),
  };
}

function answerTurn({ message_log, metadata }: Turn): TurnAnswer {
  const problem = parsedInfo(CalculatorMetadata, { name: 'calculator', info: metadata });
  const last = message_log.at(-1);
  const said = last?.role === 'assistant' ? last.content : '';
  const { content, reward, goes_on, stop_strings } = reply(said, problem);
  return {
    observation: environmentSays(content),
    reward,
    terminated: !goes_on,
    metadata: goes_on ? { ...problem, current_step: problem.current_step + 1 } : null,
    next_stop_strings: stop_strings,
  };
}

/** The mean reward in float32, as upstream's; 0 without rollouts. */
async function successRate(rollouts: FinishedRollouts): Promise<number> {
  const reward = createFloat32Mean();
  for await (const { total_reward } of rollouts) reward.add(total_reward);
  return reward.count() === 0 ? 0 : reward.mean();
}
