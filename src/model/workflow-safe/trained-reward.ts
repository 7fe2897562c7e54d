/**
 * Questions about rewards are decided on what a trainer gets. Arrays have float32, so 0.1 + 0.2 and 0.3 are one number
 * there, and so are 0.7 + 0.2 + 0.1 and 1.
 */
export const trainedReward = Math.fround;

/** Whether a group's rewards are all the same, so that its advantages are 0. */
export const isFlat = (rewards: readonly number[]): boolean =>
  new Set(rewards.map(trainedReward)).size <= 1;
