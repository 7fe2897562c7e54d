import type {
  AgentAnswer,
  AgentRequest,
  AgentServers,
} from '../../src/environments/environment.js';

/** What an agent has kept of one run. */
export async function answerOf(
  agents: Pick<AgentServers, 'run'>,
  request: Omit<AgentRequest, 'keep'>,
): Promise<AgentAnswer> {
  const kept: AgentAnswer[] = [];
  await agents.run({ ...request, keep: (answer) => Promise.resolve(void kept.push(answer)) });
  const [answer, ...others] = kept;
  if (answer === undefined || others.length > 0)
    throw new Error(`${kept.length} answers were kept`);
  return answer;
}
