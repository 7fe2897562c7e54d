import { KeptJson, keptJson } from '../../platform/json/kept.js';
import type { Trajectory } from '../journal/trajectory.js';
import type { AgentMessage } from './tokens.js';
import type { Shaping } from '../journal.js';
import { countsOf, tokensOf, withoutTokens } from './tokens.js';

/** Columns of a row; `row.ts` explains them. */
interface AgentColumns {
  agent_result?: unknown;
  untokenized?: string;
  message_log?: AgentMessage[];
  prompt_tokens?: number;
  turn_count?: number;
  policy_versions?: { start: number; end: number; version: null }[];
  logprobs_mode?: 'unknown';
  reward_shaping?: Shaping;
}

/**
 * A row's columns from an agent's answer, in place of those from turns. An agent does not report which weights it used.
 */
export function agentColumns({ agent }: Trajectory): AgentColumns {
  const answered = agent.result ?? agent.failure;
  if (answered === null) return {};
  const answer: unknown = JSON.parse(answered.text);
  const exact = keptJson(answered.text);
  if (agent.result === null) return { agent_result: exact };
  const { patterns, shaping } = agent.result;
  const tokens = tokensOf(answer, patterns);
  if (tokens.kind === 'refused') return { agent_result: exact };
  if (tokens.kind === 'none') return { agent_result: exact, untokenized: tokens.why };
  const { prompt, calls } = countsOf(tokens.messages);
  const end = calls.reduce((sum, length) => sum + length, 0);
  return {
    agent_result: new KeptJson(withoutTokens(exact.text)),
    message_log: tokens.messages,
    prompt_tokens: prompt,
    turn_count: calls.length,
    policy_versions: [{ start: 0, end, version: null }],
    logprobs_mode: 'unknown',
    ...(shaping !== undefined && { reward_shaping: shaping }),
  };
}
