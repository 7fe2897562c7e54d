import { defineKind } from '../kind.js';
import { GymAgentSettings } from './settings.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { Fault } from '../../model/faults.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { ExactEnvironment } from '../environment.js';
import { bytesOf } from '../../platform/size.js';
import { createAgents } from './agents.js';

export const gymAgent = defineKind({
  settings: GymAgentSettings,
  answers: () => 'a service',
  roles: [],
  make: createGymAgent,
});

/** Agent servers of NeMo Gym, which play whole rollouts. */
function createGymAgent(
  settings: GymAgentSettings,
  { answers }: Pick<EnvironmentContext, 'answers'>,
): ExactEnvironment {
  const { health, run, close } = createAgents({
    head_server: settings.head_server,
    agents: settings.agents,
    timeout_ms: toMs(settings.timeout),
    max_answer_bytes: bytesOf(settings.max_answer),
    answers,
    rules: settings,
    tokenizer: settings.tokenizer,
  });
  return {
    agent: { health, run, sampling: settings.sampling },
    step: () => {
      const message = 'an agent plays whole rollouts: it answers no single turn';
      return Promise.reject(new Fault({ type: 'EnvironmentRejected', message }));
    },
    close,
  };
}
