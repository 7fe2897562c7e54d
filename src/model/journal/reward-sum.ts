import type { LineOf } from '../journal.js';
import { isUpstream, RULES, type Semantics } from '../semantics.js';

export interface RewardSums {
  total_reward: number;
  rewards: Record<string, number>;
}

/**
 * The rollout's sums with one more reward. The fold (trajectory.ts) takes them for each `observation` line, and row.ts
 * copies them. A turn with components is worth their sum. Upstream's rewards are float32 per step, components too. Its
 * lock-step loop also sums in float32, the others in double.
 */
export function withReward(
  before: RewardSums,
  {
    line,
    semantics,
  }: { line: Pick<LineOf<'observation'>, 'reward' | 'rewards'>; semantics: Semantics },
): RewardSums {
  const round = isUpstream(semantics) ? Math.fround : (value: number): number => value;
  const plus = (sum: number, value: number): number =>
    RULES[semantics].in_lock_step ? Math.fround(sum + value) : sum + value;
  const rewards = { ...before.rewards };
  let step = Object.keys(line.rewards).length === 0 ? round(line.reward) : 0;
  for (const [name, value] of Object.entries(line.rewards)) {
    step = plus(step, round(value));
    // Every object has an inherited `constructor`, and a component may have that name.
    const sum = Object.hasOwn(rewards, name) ? (rewards[name] ?? 0) : 0;
    rewards[name] = plus(sum, round(value));
  }
  return { total_reward: plus(before.total_reward, step), rewards };
}
