import { z } from 'zod';
import { Word, oneOf, orNull } from '../../model/field-kinds.js';
import { Duration } from '../../model/durations.js';
import { BaseUrl } from '../../model/base-url.js';
import { MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { STEP_QUEUE } from '../step-queue.js';

export const RewardModelSettings = z.strictObject({
  kind: z.literal('reward_model').describe('a reward model behind a service'),
  url: BaseUrl.describe(
    "`scores`: the URL of each request; `vllm`: the server's base, to which `/classify` is appended",
  ),
  protocol: oneOf(['scores', 'vllm'], 'scores').describe(
    '`scores`: the service gets message logs and answers with numbers. `vllm`: vLLM with a model of one label',
  ),
  model: orNull(Word).describe("of `vllm`: the served name; null: the server's default"),
  timeout: Duration.default('5m').describe(
    'for one request, from connecting to the last byte of the answer',
  ),
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer'),
  api_key_env: orNull(Word).describe(
    'the environment variable that holds the bearer token of requests',
  ),
  ...STEP_QUEUE,
});
export type RewardModelSettings = z.infer<typeof RewardModelSettings>;
