import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { BaseUrl } from '../http/base-url.js';
import { MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { STEP_QUEUE } from '../step-queue.js';

export const RewardModelSettings = z.strictObject({
  kind: z.literal('reward_model'),
  /** Of `scores`, where requests go as it stands; of `vllm`, the server's base: `/classify` is appended. */
  url: BaseUrl,
  protocol: z.enum(['scores', 'vllm']).default('scores'),
  /** Of `vllm`: the served name; null: the server's own. */
  model: z.string().min(1).nullable().default(null),
  /** For one request, from connecting to the last byte of the answer. */
  timeout: Duration.default('5m'),
  /** Of one answer. */
  max_answer: MaxAnswer.default(MAX_ANSWER),
  /** Secrets are named, never written: the variable of the bearer token. */
  api_key_env: z.string().min(1).nullable().default(null),
  ...STEP_QUEUE,
});
export type RewardModelSettings = z.infer<typeof RewardModelSettings>;
