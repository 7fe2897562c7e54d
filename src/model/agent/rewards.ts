import { z } from 'zod';
import { Reward } from '../journal.js';
import { textOf } from '../problems.js';
import { cutToBytes } from '../../platform/utf8.js';
import type { Refusal } from './tokens.js';

const Few = z.object({ reward_components: z.record(z.string(), z.number()) });
/** As for environments: each has a place in every row. */
const MOST_COMPONENTS = 256;
/** How far a reward may be from the sum of its components: upstream's `math.isclose`. */
const RELATIVE = 1e-5;
const ABSOLUTE = 1e-6;

/** The named components of an agent's reward, or {}. A trainer may read the sum or the parts, so they must agree. */
export function componentsOf(
  answer: unknown,
  { reward }: { reward: number },
): { rewards: Record<string, number> } | { fault: Refusal } {
  const { reward_components } = Object(answer) as { reward_components?: unknown };
  const names = Object.keys(Object(reward_components) as object);
  // Checked first: zod would make a million reports of a million wrong ones.
  if (names.length > MOST_COMPONENTS) {
    const message = `expected at most ${MOST_COMPONENTS} reward_components, got ${names.length}`;
    return { fault: { type: 'EnvironmentRejected', message } };
  }
  const rewards = Few.safeParse(answer).data?.reward_components ?? {};
  const values = Object.values(rewards);
  if (values.length === 0) return { rewards };
  const beyond = Object.entries(rewards).find(([, value]) => !Reward.safeParse(value).success);
  if (beyond !== undefined) {
    const [name, value] = beyond;
    const [problem] = Reward.safeParse(value).error?.issues ?? [];
    const message = `reward_components.${cutToBytes(name, 80)}: ${problem?.message ?? 'malformed'}, got ${value}`;
    return { fault: { type: 'EnvironmentRejected', message } };
  }
  const sum = values.reduce((total, value) => total + value, 0);
  const most = Math.max(RELATIVE * Math.max(Math.abs(sum), Math.abs(reward)), ABSOLUTE);
  if (Math.abs(sum - reward) <= most) return { rewards };
  const message = `expected reward = sum(reward_components.values()), got reward ${reward}, but its reward_components sum to ${sum} (${textOf(rewards)})`;
  return { fault: { type: 'EnvironmentRejected', message } };
}
