import type { Random } from '../random.js';

/** How a request wants to sample, in vLLM's terms. */
export interface Sampling {
  /** 0 is greedy. */
  temperature: number;
  top_p: number;
  /** 0 or -1 switches it off. */
  top_k: number;
  min_p: number;
}

/** One thing that can be said. No option of a distribution begins another one. */
export interface Option {
  text: string;
  probability: number;
}

export interface Choice {
  bytes: readonly number[];
  probability: number;
  /** Of each byte, given those before it; they sum to the logarithm of `probability`. */
  logprobs: readonly number[];
}

export interface Distribution {
  choices: readonly Choice[];
  /** The likeliest choice is always taken; the logprobs are those of the unfiltered distribution at temperature 1 (capture 034). */
  greedy: boolean;
}

/** vLLM raises smaller temperatures to this one. */
const LOWEST_TEMPERATURE = 0.01;

export function isGreedy({ temperature }: Sampling): boolean {
  return temperature < 1e-5;
}

/** What logits are divided by: 1 for greedy sampling, whose logprobs are the unscaled ones. */
export function divisor(sampling: Sampling): number {
  return isGreedy(sampling) ? 1 : Math.max(sampling.temperature, LOWEST_TEMPERATURE);
}

/** Probabilities from logits that are already divided by the temperature. */
export function softmax(logits: readonly number[]): number[] {
  const highest = Math.max(...logits);
  return normalise(logits.map((logit) => Math.exp(logit - highest)));
}

function normalise(weights: readonly number[]): number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** What min_p, top_k and top_p leave, in vLLM's order: the others get probability 0, the rest sums to 1 again. */
export function filterOptions(options: readonly Option[], sampling: Sampling): Option[] {
  if (isGreedy(sampling)) return [...options];
  const { min_p, top_k, top_p } = sampling;
  const ranked = [...options].sort((a, b) => b.probability - a.probability);
  const least = min_p * (ranked[0]?.probability ?? 0);
  const likely = ranked.filter(({ probability }) => probability >= least);
  const kept = new Set(nucleus(top_k > 0 ? likely.slice(0, top_k) : likely, top_p));
  const left = options.map((option) => (kept.has(option) ? option.probability : 0));
  const probabilities = normalise(left);
  return options.map(({ text }, i) => ({ text, probability: probabilities[i] ?? 0 }));
}

/** The likeliest options that together reach the share `top_p` of all of them. */
function nucleus(ranked: readonly Option[], top_p: number): readonly Option[] {
  if (top_p >= 1) return ranked;
  const all = ranked.reduce((total, { probability }) => total + probability, 0);
  let sum = 0;
  return ranked.filter(({ probability }) => {
    const wanted = sum < top_p * all;
    sum += probability;
    return wanted;
  });
}

/**
 * Turns options into bytes with their conditional probabilities: a byte on which all options agree is certain (logprob
 * 0), one that decides between options carries the logarithm of its share.
 */
export function createDistribution(options: readonly Option[], greedy: boolean): Distribution {
  const spelled = options.map(({ text, probability }) => ({
    bytes: Array.from(Buffer.from(text)),
    probability,
  }));
  const massOf = (prefix: readonly number[]): number =>
    spelled
      .filter(({ bytes }) => startsWith(bytes, prefix))
      .reduce((sum, { probability }) => sum + probability, 0);
  const choices = spelled.map(({ bytes, probability }) => {
    let before = 1;
    const logprobs = bytes.map((_byte, i) => {
      const mass = massOf(bytes.slice(0, i + 1));
      // What has no probability is only ever said when a resumed prompt already began it.
      const logprob = before === 0 ? 0 : Math.min(0, Math.log(mass / before));
      before = mass;
      return logprob;
    });
    return { bytes, probability, logprobs };
  });
  return { choices, greedy };
}

function startsWith(bytes: readonly number[], prefix: readonly number[]): boolean {
  return prefix.length <= bytes.length && prefix.every((byte, i) => bytes[i] === byte);
}

/** One of the choices that begin with `prefix`, by their probabilities; null when none does. */
export function choose(
  distribution: Distribution,
  { prefix, random }: { prefix: readonly number[]; random: Random },
): Choice | null {
  const { choices, greedy } = distribution;
  const open = choices.filter(
    ({ bytes }) => bytes.length > prefix.length && startsWith(bytes, prefix),
  );
  if (greedy) return likeliest(open);
  let left = random() * open.reduce((sum, { probability }) => sum + probability, 0);
  for (const choice of open) {
    left -= choice.probability;
    if (left < 0) return choice;
  }
  // Rounding may leave a crumb, and a prefix that the filters forbid has no probability at all.
  return likeliest(open);
}

function likeliest(choices: readonly Choice[]): Choice | null {
  return choices.reduce<Choice | null>(
    (best, choice) => (best === null || choice.probability > best.probability ? choice : best),
    null,
  );
}
