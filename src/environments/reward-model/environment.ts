import { toMs } from '../../model/workflow-safe/durations.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import type { Environment, FinishedRollouts } from '../environment.js';
import { createHttpCall } from '../http/call.js';
import { namingHeaders } from '../naming.js';
import { environmentSays } from '../turn.js';
import type { Token } from '../http/token.js';
import { bytesOf } from '../../platform/size.js';
import { createPlainScore, createVllmScore } from './scoring.js';
import type { RewardModelSettings } from './settings.js';

/**
 * A reward model behind HTTP: one turn, rewarded by its score of the whole conversation. Upstream's observation has
 * torch's print of a tensor; this one has the number itself. The idempotency key of a request is the step's, because a
 * repeated score must give the same row.
 */
export function createRewardModel(
  { url: at, protocol, model, timeout, max_answer }: RewardModelSettings,
  { token, answers }: { token: Token | null; answers?: Allowance },
): Environment {
  const { send: call, close } = createHttpCall({
    url: at,
    token,
    timeout_ms: toMs(timeout),
    max_answer_bytes: bytesOf(max_answer),
    ...(answers && { answers }),
  });
  const isVllm = protocol === 'vllm';
  const score = isVllm ? createVllmScore({ call, at, model }) : createPlainScore({ call, at });
  return {
    async step({ message_log }, { signal, share, ...names }) {
      const headers = namingHeaders(names);
      const reward = await score(message_log, { headers, signal, share });
      return {
        observation: environmentSays(`Environment: ${reward}`),
        reward,
        terminated: true,
        answer: message_log.at(-1)?.content ?? null,
      };
    },

    globalPostProcessAndMetrics: rewardStatistics,
    close,

    ...(isVllm && {
      async health(signal: AbortSignal) {
        await call({ method: 'GET', path: '/health', signal });
      },
    }),
  };
}

/** Over float32 rewards, as in upstream's tensors; null without rollouts, no deviation for a single one. */
async function rewardStatistics(
  rollouts: FinishedRollouts,
): Promise<Record<string, number> | null> {
  let count = 0;
  let mean = 0;
  // Welford's sum of squared deviations, which reads the rollouts once.
  let squares = 0;
  let least = Infinity;
  let greatest = -Infinity;
  for await (const { total_reward } of rollouts) {
    const reward = Math.fround(total_reward);
    count += 1;
    const before = reward - mean;
    mean += before / count;
    squares += before * (reward - mean);
    least = Math.min(least, reward);
    greatest = Math.max(greatest, reward);
  }
  if (count === 0) return null;
  const named = (name: string): string => `reward_model_env/${name}`;
  return {
    [named('num_samples')]: count,
    [named('mean_reward')]: Math.fround(mean),
    ...(count > 1 && { [named('std_reward')]: Math.fround(Math.sqrt(squares / (count - 1))) }),
    [named('min_reward')]: least,
    [named('max_reward')]: greatest,
  };
}
