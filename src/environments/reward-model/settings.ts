import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { BaseUrl } from '../http/base-url.js';
import { MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { STEP_QUEUE } from '../step-queue.js';

export const RewardModelSettings = z.strictObject({
  kind: z.literal('reward_model'),
  /** With `scores`, the URL of each request; with `vllm`, the server's base, to which `/classify` is appended. */
  url: BaseUrl,
  protocol: z.enum(['scores', 'vllm']).default('scores'),
  /** For `vllm`: the served name; null: the server's default. */
  model: z.string().min(1).nullable().default(null),
  /** For one request, from connecting to the last byte of the answer. */
  timeout: Duration.default('5m'),
  /** Size limit of one answer. */
  max_answer: MaxAnswer.default(MAX_ANSWER),
  /** The variable that holds the bearer token: secrets are named, never written. */
  api_key_env: z.string().min(1).nullable().default(null),
  ...STEP_QUEUE,
});
export type RewardModelSettings = z.infer<typeof RewardModelSettings>;
