import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { BaseUrl } from '../http/base-url.js';
import { TOKEN } from '../http/token.js';
import { MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { STEP_QUEUE } from '../step-queue.js';

export const GymnasiumSettings = z.strictObject({
  kind: z.literal('gymnasium'),
  /** The base URL of a Gym resources server: `/reset`, `/step` and `/close` are appended. */
  url: BaseUrl,
  ...TOKEN,
  /** For one call, from connecting to the last byte of the answer. */
  timeout: Duration.default('5m'),
  /** Size limit of one answer. */
  max_answer: MaxAnswer.default(MAX_ANSWER),
  /** Steps of one rollout: the last of them truncates it (upstream: the agent's `max_steps`). */
  max_steps: z.int().positive().default(10),
  ...STEP_QUEUE,
});
export type GymnasiumSettings = z.infer<typeof GymnasiumSettings>;
