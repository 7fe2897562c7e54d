import type { LineOf } from '../journal.js';
import { isUpstream, RULES, type Semantics } from '../semantics.js';

/**
 * Adds one turn's reward to the rollout's sums. The fold (trajectory.ts) calls it for each `observation` line, and
 * row.ts copies the sums. A turn with components is worth their sum. Upstream's rewards are float32 per step,
 * components too. Its lock-step loop also sums in float32, the others in double.
 */
export function addReward(
  sums: { total_reward: number; rewards: Record<string, number> },
  {
    line,
    semantics,
  }: {
    line: Pick<LineOf<'observation'>, 'reward' | 'rewards'>;
    semantics: Semantics;
  },
): void {
  const round = isUpstream(semantics) ? Math.fround : (value: number): number => value;
  const plus = (sum: number, value: number): number =>
    RULES[semantics].in_lock_step ? Math.fround(sum + value) : sum + value;
  const { rewards } = sums;
  let step = 0;
  for (const [name, value] of Object.entries(line.rewards)) {
    step = plus(step, round(value));
    // Every object has an inherited `constructor`, and a component may have that name.
    const before = Object.hasOwn(rewards, name) ? (rewards[name] ?? 0) : 0;
    rewards[name] = plus(before, round(value));
  }
  if (Object.keys(line.rewards).length === 0) step = round(line.reward);
  sums.total_reward = plus(sums.total_reward, step);
}

/** The sum as it will be with one more turn. */
export function rewardWith(
  sums: Parameters<typeof addReward>[0],
  turn: Parameters<typeof addReward>[1],
): number {
  const { total_reward, rewards } = sums;
  const after = { total_reward, rewards: { ...rewards } };
  addReward(after, turn);
  return after.total_reward;
}
