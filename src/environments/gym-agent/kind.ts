import { BaseUrl } from '../../model/base-url.js';
import { defineKind, type EnvironmentContext, STEP_QUEUE } from '../kind.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { AgentSample } from '../../model/agent/sample.js';
import { answersNoTurn, CALL_FIELDS, CALL_LIMITS, callRules } from '../agent/call-settings.js';
import type { ExactEnvironment } from '../environment.js';
import { bytesOf, MaxAnswer } from '../../platform/size.js';
import { createAgents } from './agents.js';
import { z } from 'zod';
import { Duration, On, Words, oneOf, orNull } from '../../model/field-kinds.js';
import { ShapingFields } from '../../model/agent/shaping.js';

export const GymAgentSettings = z
  .strictObject({
    kind: z.literal('gym_agent').describe('agent servers of NeMo Gym, which play whole rollouts'),
    head_server: orNull(BaseUrl).describe(
      "URL of NeMo Gym's head server, which knows the agents that `agents` does not name; null: there are no others",
    ),
    agents: z
      .record(z.string(), BaseUrl)
      .default({})
      .describe('base URL of each agent server, by its name'),
    model_server: oneOf(['gateway', 'own'], 'gateway').describe(
      "model server of the agents. `gateway`: the worker's gateway, with this policy. `own`: one of NeMo Gym; rows then have no tokens",
    ),
    timeout: Duration.default('4h').describe(
      'for one run, from connecting to the last byte of the answer, unless the sample has its own',
    ),
    sampling: oneOf(['row', 'request'], 'row').describe(
      "where `temperature`, `top_p` and `max_output_tokens` come from. `row`: the row itself. `request`: the batch's `generation`, as in NeMo RL",
    ),
    ...ShapingFields,
    should_mask_flagged_samples: On.describe(
      'an answer with `mask_sample` gets `loss_multiplier` 0; false: it trains as any other',
    ),
    thinking_tags: Words.describe('the two tags around a thought; `[]`: `<think>`, `</think>`'),
    max_answer: MaxAnswer.default('64MiB').describe('size limit of one answer'),
    ...CALL_FIELDS,
    limits: z.strictObject(CALL_LIMITS).prefault({}).describe('of one rollout'),
    ...STEP_QUEUE,
  })
  .refine(({ head_server, agents }) => head_server !== null || Object.keys(agents).length > 0, {
    error: 'expected head_server, or agents by name, got neither',
  })
  .refine(({ thinking_tags }) => thinking_tags.length !== 1, {
    path: ['thinking_tags'],
    error: 'expected a tag that opens a thought and one that closes it, got one tag',
  });
export type GymAgentSettings = z.infer<typeof GymAgentSettings>;

export const gymAgent = defineKind({
  settings: GymAgentSettings,
  answers: () => 'a service',
  roles: [],
  make: createGymAgent,
});

function createGymAgent(
  settings: GymAgentSettings,
  { answers }: Pick<EnvironmentContext, 'answers'>,
): ExactEnvironment {
  const { serverOf, close, outlives, start, wait, endOf, stop } = createAgents({
    head_server: settings.head_server,
    agents: settings.agents,
    timeout_ms: toMs(settings.timeout),
    max_answer_bytes: bytesOf(settings.max_answer),
    answers,
    rules: settings,
  });
  return {
    program: {
      ...{ outlives, start, wait, stop, ...(endOf && { endOf }) },
      rules: {
        ...callRules(settings, { verify: null }),
        asks_policy: settings.model_server === 'gateway',
        run: null,
      },
      rows: { sampling: settings.sampling },
      attemptsOf: (sample) => {
        const { max_attempts, attempt_index } = AgentSample.parse(sample);
        return max_attempts - attempt_index;
      },
      health: async (signal, sample) => {
        if (sample !== undefined) await serverOf(AgentSample.parse(sample).agent, signal);
      },
    },
    step: answersNoTurn,
    close,
  };
}
