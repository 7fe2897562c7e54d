import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { BaseUrl } from '../http/base-url.js';
import { MaxAnswer } from '../../platform/size.js';
import { STEP_QUEUE } from '../step-queue.js';

/** Agent servers of NeMo Gym, which play whole rollouts. */
export const GymAgentSettings = z
  .strictObject({
    kind: z.literal('gym_agent').describe('agent servers of NeMo Gym, which play whole rollouts'),
    head_server: BaseUrl.nullable()
      .default(null)
      .describe('asked for servers that `agents` does not name; null: there are no others'),
    agents: z.record(z.string(), BaseUrl).default({}).describe('the base URL of each, by its name'),
    timeout: Duration.default('4h').describe(
      'for one run, from connecting to the last byte of the answer, unless the sample has its own',
    ),
    max_answer: MaxAnswer.default('64MiB').describe('size limit of one answer'),
    ...STEP_QUEUE,
  })
  .refine(({ head_server, agents }) => head_server !== null || Object.keys(agents).length > 0, {
    error: 'expected head_server, or agents by name, got neither',
  });
export type GymAgentSettings = z.infer<typeof GymAgentSettings>;
