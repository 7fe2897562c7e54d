/** How many tokens the policy thinks: a length drawn evenly from a range, or from a log-normal law. */
export type Lengths = readonly [min: number, max: number] | LogNormal;

export interface LogNormal {
  median: number;
  /** The deviation of the logarithm: one length in forty is above `median` × e^(2 sigma). */
  sigma: number;
}

/** Where the thoughts are. */
interface Place {
  length: number;
  /** Where the last word began; -1 before the first. */
  last_start: number;
}

/**
 * The probability of ending the thoughts at the end of a word: that a length of this law lies within the last word, given
 * that it did not lie before.
 */
export function stopProbability({ length, last_start }: Place, lengths: Lengths): number {
  if ('median' in lengths) return 1 - beyond(length, lengths) / beyond(last_start, lengths);
  const [min, max] = lengths;
  if (length >= max) return 1;
  const passed = Math.max(last_start, min - 1);
  return Math.max(0, (length - passed) / (max - passed));
}

/** Whether greedy thoughts end there: at the middle of the law. */
export const endsGreedily = (place: Place, lengths: Lengths): boolean =>
  'median' in lengths ? place.length >= lengths.median : stopProbability(place, lengths) >= 0.5;

/** Tokens that are left. */
export const roomAt = (length: number, lengths: Lengths): number =>
  'median' in lengths ? Infinity : lengths[1] - length;

/** The share of lengths above this one. */
function beyond(length: number, { median, sigma }: LogNormal): number {
  if (length <= 0) return 1;
  return Math.max(Number.MIN_VALUE, normalTail(Math.log(length / median) / sigma));
}

/** The probability that a standard normal variable is above x: Numerical Recipes' `erfcc`, whose relative error is below 1.2e-7. */
function normalTail(x: number): number {
  const z = Math.abs(x) / Math.SQRT2;
  const t = 1 / (1 + z / 2);
  const powers = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
    1.48851587, -0.82215223, 0.17087277,
  ];
  const series = powers.reduceRight((sum, factor) => sum * t + factor, 0);
  const tail = (t * Math.exp(-z * z + series)) / 2;
  return x >= 0 ? tail : 1 - tail;
}
