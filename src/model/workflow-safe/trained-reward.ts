/**
 * Questions about rewards are decided on what a trainer gets. Arrays have float32, so 0.1 + 0.2 and 0.3 are one number
 * there, and so are 0.7 + 0.2 + 0.1 and 1.
 */
export const trainedReward = Math.fround;

/** Whether a group's rewards are all the same, so that its advantages are 0. */
export const isFlat = (rewards: readonly number[]): boolean =>
  new Set(rewards.map(trainedReward)).size <= 1;

/** A baseline needs two. */
const LEAST_VALID = 2;

/**
 * What becomes of a stream's group whose members have all ended, given the rewards of the valid ones and how many of
 * them have no token to train on. The filter takes out what teaches nothing, for either reason.
 */
export function groupOutcome(
  rewards: readonly number[],
  {
    num_repeats,
    filter,
    untrained = 0,
  }: { num_repeats: number; filter: 'zero_variance' | null; untrained?: number },
): 'complete' | 'filtered' | 'untrained' | 'failed' {
  if (rewards.length < Math.min(LEAST_VALID, num_repeats)) return 'failed';
  if (filter === null) return 'complete';
  if (untrained === rewards.length) return 'untrained';
  return isFlat(rewards) ? 'filtered' : 'complete';
}
