import { Reward } from '../journal/line-parts.js';
import { preview, textOf } from '../problems.js';
import { numberOfBoolean } from '../untrusted.js';
import { cutToBytes } from '../../platform/utf8.js';
import type { FaultType } from '../faults.js';

/** Why an agent's answer is no row, whatever its reward. */
export interface Refusal {
  type: FaultType;
  message: string;
}

const Component = numberOfBoolean(Reward);
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
  if (!reward_components) return { rewards: {} };
  const refuse = (message: string): { fault: Refusal } => ({
    fault: { type: 'EnvironmentRejected', message },
  });
  if (typeof reward_components !== 'object' || Array.isArray(reward_components))
    return refuse(`reward_components: expected an object, got ${preview(reward_components)}`);
  const names = Object.keys(reward_components);
  if (names.length > MOST_COMPONENTS)
    return refuse(`expected at most ${MOST_COMPONENTS} reward_components, got ${names.length}`);
  const rewards: Record<string, number> = {};
  for (const [name, value] of Object.entries(reward_components)) {
    const { data, error } = Component.safeParse(value);
    if (error !== undefined)
      return refuse(
        `reward_components.${cutToBytes(name, 80)}: ${error.issues[0]?.message ?? 'malformed'}, got ${preview(value)}`,
      );
    rewards[name] = data;
  }
  const values = Object.values(rewards);
  if (values.length === 0) return { rewards };
  const sum = values.reduce((total, value) => total + value, 0);
  const most = Math.max(RELATIVE * Math.max(Math.abs(sum), Math.abs(reward)), ABSOLUTE);
  if (Math.abs(sum - reward) <= most) return { rewards };
  return refuse(
    `expected reward = sum(reward_components.values()), got reward ${reward}, but its reward_components sum to ${sum} (${textOf(rewards)})`,
  );
}
