import type { Shaping } from '../journal.js';
import { effortOf } from './effort.js';
import { orUsual, THINKING_TAGS } from './flags.js';
import { penalisedFor } from './penalties.js';
import type { EffortLevels, RewardPenalties } from './shaping-settings.js';
import type { AgentMessage } from './tokens.js';

/** What NeMo RL makes of an agent's reward before it trains on it. */
export interface ShapingRules {
  effort_levels: EffortLevels | null;
  reward_penalties: RewardPenalties | null;
  thinking_tags: readonly string[];
}

export interface Unshaped {
  reward: number;
  /** `response.output` */
  output: readonly unknown[];
  messages: readonly AgentMessage[];
  /** The row as it was sent. */
  row: unknown;
  /** See `Judged`. */
  texts: readonly string[] | null;
}

/**
 * The reward to train on: by length where little effort is asked for, then 0 for a mistake. An answer without tokens is
 * not trained on, and keeps its own.
 */
export function shapedReward(
  { effort_levels, reward_penalties, thinking_tags }: ShapingRules,
  { reward, row, ...answer }: Unshaped,
): { reward: number; shaping?: Shaping } {
  const last = answer.messages.at(-1);
  if (last === undefined) return { reward };
  const length = last.token_ids.length;
  const effort = effort_levels && effortOf(effort_levels, { reward, length, row });
  const tags = orUsual(thinking_tags, THINKING_TAGS);
  const penalties =
    reward_penalties && penalisedFor(reward_penalties, { ...answer, thinking_tags: tags });
  if (effort === null && penalties === null) return { reward };
  const isPenalised = Object.values(penalties ?? {}).includes(true);
  return {
    reward: isPenalised ? 0 : (effort?.reward ?? reward),
    shaping: { reward, ...(effort && { effort }), ...(penalties && { penalties }) },
  };
}
