import { z } from 'zod';
import { isForeignObject, membersIn } from '../foreign-object.js';
import { Shaping } from '../journal.js';
import { resultOf } from '../journal/outcome.js';
import type { Row } from '../results/row-columns.js';
import type { Trajectory } from '../journal/trajectory.js';
import { AgentSample } from './sample.js';

/** What the metrics need of an agent's rollout, beside what they need of any. */
export const AgentSummary = z.object({
  name: z.string(),
  /** The rollouts of an agent's task are one group, whatever their rows. */
  task_index: z.int(),
  /** `mask_sample`: its row is not trained on. */
  masked: z.boolean(),
  prompt_tokens: z.int(),
  shaping: Shaping.exactOptional(),
  /** The answer's own fields: the value of a number or boolean, and null for any other. The reward is the one to train on. */
  fields: z.record(z.string(), z.number().nullable()),
});
export type AgentSummary = z.infer<typeof AgentSummary>;

/** Bounds of what is kept for each rollout of a batch. */
const MOST_FIELDS = 64;
const LONGEST_NAME = 80;

/** undefined: no agent plays it. */
export function agentSummaryOf(
  trajectory: Trajectory,
  {
    prompt_tokens,
    extra_env_info,
    agent_result,
  }: Pick<Row, 'prompt_tokens' | 'extra_env_info' | 'agent_result'>,
): AgentSummary | undefined {
  const { start, total_reward } = trajectory;
  // Without a start, the sample alone tells; no other one has these fields.
  if (start !== null && start.plays !== 'agent') return undefined;
  const sample = AgentSample.safeParse(extra_env_info);
  if (!sample.success) return undefined;
  const result = resultOf(trajectory);
  return {
    name: sample.data.agent,
    task_index: sample.data.task_index,
    masked: result?.untrained !== undefined,
    prompt_tokens,
    ...(result?.shaping !== undefined && { shaping: result.shaping }),
    fields: result === null ? {} : { ...fieldsOf(agent_result), reward: total_reward },
  };
}

function fieldsOf(answer: unknown): AgentSummary['fields'] {
  if (!isForeignObject(answer)) return {};
  const named = Array.from(membersIn(answer)).filter(([name]) => name.length <= LONGEST_NAME);
  return Object.fromEntries(
    named.slice(0, MOST_FIELDS).map(([name, text]) => [name, numberIn(text)]),
  );
}

function numberIn(text: string): number | null {
  if (text === 'true' || text === 'false') return Number(text === 'true');
  const value = /^[-\d]/.test(text) ? Number(text) : NaN;
  return Number.isFinite(value) ? value : null;
}
