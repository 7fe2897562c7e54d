import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { BaseUrl } from '../../model/base-url.js';
import { TOKEN } from '../http/token.js';
import { MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { STEP_QUEUE } from '../step-queue.js';

export const GymnasiumSettings = z.strictObject({
  kind: z.literal('gymnasium').describe('a resources server of NeMo Gym with `/reset` and `/step`'),
  url: BaseUrl.describe('base URL of the server. `/reset`, `/step` and `/close` are appended'),
  ...TOKEN,
  timeout: Duration.default('5m').describe(
    'for one call, from connecting to the last byte of the answer',
  ),
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer'),
  max_steps: z
    .int()
    .positive()
    .default(10)
    .describe('steps of one rollout; the last of them truncates it'),
  ...STEP_QUEUE,
});
export type GymnasiumSettings = z.infer<typeof GymnasiumSettings>;
