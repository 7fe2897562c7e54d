import type { Random } from '../random.js';

/** How a request is to be sampled, in vLLM's terms. */
export interface Sampling {
  /** 0 is greedy. */
  temperature: number;
  top_p: number;
  /** 0 or -1 switches it off. */
  top_k: number;
  min_p: number;
}

/** One thing that can be said. No option of a distribution is the beginning of another one. */
export interface Option {
  text: string;
  probability: number;
}

export interface Choice {
  bytes: readonly number[];
  probability: number;
  /** The source of its logprobs: `probability`, or in mode raw that of the unscaled, unfiltered distribution. */
  reported: number;
  /** For each byte, given those before it; they sum to the logarithm of `reported`. */
  logprobs: readonly number[];
}

export interface Distribution {
  choices: readonly Choice[];
  /** The likeliest choice is always taken; the logprobs are those of the unfiltered distribution at temperature 1. */
  greedy: boolean;
}

/** The distribution of logprobs: the sampled one, or the one before temperature and filters. */
export type LogprobsMode = 'processed' | 'raw';

/** Sampling settings that change nothing. */
const UNSCALED: Sampling = { temperature: 1, top_p: 1, top_k: -1, min_p: 0 };

/** vLLM raises smaller temperatures to this one. */
const LOWEST_TEMPERATURE = 0.01;

export function isGreedy({ temperature }: Sampling): boolean {
  return temperature < 1e-5;
}

/** The divisor of logits: 1 for greedy sampling, whose logprobs are unscaled. */
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

/**
 * Applies min_p, top_k and top_p in vLLM's order: the excluded options get probability 0, and the rest sums to 1 again.
 */
function filterOptions(options: readonly Option[], sampling: Sampling): Option[] {
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
 * 0), and one that decides between options has the logarithm of its share.
 */
export function createDistribution(
  optionsFor: (sampling: Sampling) => readonly Option[],
  { sampling, mode }: { sampling: Sampling; mode: LogprobsMode },
): Distribution {
  const greedy = isGreedy(sampling);
  const told = mode === 'raw' ? optionsFor(UNSCALED) : null;
  const spelled = filterOptions(optionsFor(sampling), sampling).map(({ text, probability }, i) => ({
    bytes: Array.from(Buffer.from(text)),
    probability,
    reported: told?.[i]?.probability ?? probability,
  }));
  const massOf = (prefix: readonly number[]): number => reportedMass({ choices: spelled }, prefix);
  const choices = spelled.map(({ bytes, probability, reported }) => {
    let before = 1;
    const logprobs = bytes.map((_byte, i) => {
      const mass = massOf(bytes.slice(0, i + 1));
      // Options without probability occur only if a resumed prompt has already begun them.
      const logprob = before === 0 ? 0 : Math.min(0, Math.log(mass / before));
      before = mass;
      return logprob;
    });
    return { bytes, probability, reported, logprobs };
  });
  return { choices, greedy };
}

function reportedMass(
  { choices }: { choices: readonly Pick<Choice, 'bytes' | 'reported'>[] },
  prefix: readonly number[],
): number {
  return choices
    .filter(({ bytes }) => startsWith(bytes, prefix))
    .reduce((sum, { reported }) => sum + reported, 0);
}

/** The bytes that may follow a prefix, with their logprobs. */
export function nextBytes(
  distribution: Distribution,
  prefix: readonly number[],
): [byte: number, logprob: number][] {
  const open = distribution.choices.filter(
    ({ bytes }) => bytes.length > prefix.length && startsWith(bytes, prefix),
  );
  const all = reportedMass(distribution, prefix);
  return [...new Set(open.map(({ bytes }) => bytes[prefix.length] ?? 0))]
    .map((byte): [number, number] => [byte, reportedMass(distribution, [...prefix, byte]) / all])
    .filter(([, share]) => share > 0)
    .map(([byte, share]) => [byte, Math.min(0, Math.log(share))]);
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
  // Rounding may leave a remainder, and a prefix that the filters forbid has no probability at all.
  return likeliest(open);
}

function likeliest(choices: readonly Choice[]): Choice | null {
  return choices.reduce<Choice | null>(
    (best, choice) => (best === null || choice.probability > best.probability ? choice : best),
    null,
  );
}
