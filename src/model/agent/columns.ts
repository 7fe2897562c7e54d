import type { Row } from '../row.js';
import type { Trajectory } from '../trajectory.js';
import { countsOf, tokensOf, withoutTokens } from './tokens.js';

type AgentColumns = Partial<
  Pick<
    Row,
    | 'agent_result'
    | 'untokenized'
    | 'message_log'
    | 'prompt_tokens'
    | 'turn_count'
    | 'policy_versions'
    | 'logprobs_mode'
  >
>;

/** What a row has of an agent's answer, in place of what it has of turns. An agent does not say which weights answered it. */
export function agentColumns({ agent }: Trajectory): AgentColumns {
  const answered = agent.result ?? agent.failure;
  if (answered === null) return {};
  const answer: unknown = JSON.parse(answered.text);
  if (agent.result === null) return { agent_result: answer };
  const tokens = tokensOf(answer);
  if (tokens.kind === 'refused') return { agent_result: answer };
  if (tokens.kind === 'none') return { agent_result: answer, untokenized: tokens.why };
  const { prompt, calls } = countsOf(tokens.messages);
  const end = calls.reduce((sum, length) => sum + length, 0);
  return {
    agent_result: withoutTokens(answer),
    message_log: tokens.messages,
    prompt_tokens: prompt,
    turn_count: calls.length,
    policy_versions: [{ start: 0, end, version: null }],
    logprobs_mode: 'unknown',
  };
}
