import { isFlat } from '../trained-reward.js';

/** A baseline needs two. */
const LEAST_VALID = 2;

/** What becomes of a stream's group whose members have all ended, given the rewards of the valid ones. */
export function groupOutcome(
  rewards: readonly number[],
  { num_repeats, filter }: { num_repeats: number; filter: 'zero_variance' | null },
): 'complete' | 'filtered' | 'failed' {
  if (rewards.length < Math.min(LEAST_VALID, num_repeats)) return 'failed';
  return filter === 'zero_variance' && isFlat(rewards) ? 'filtered' : 'complete';
}
