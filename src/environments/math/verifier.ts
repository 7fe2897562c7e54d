import type { Problem } from '../../model/problems.js';
import { preview } from '../../model/problems.js';
import { rejected } from '../rejections.js';

/** A verifier compares the answer of a response with the ground truth (upstream's `math_verify_impl`). */

export interface VerifierInput {
  /** As in the sample's `extra_env_info`: a verifier checks the type that it needs. */
  ground_truth: unknown;
  response: string;
  /** The same with its thoughts; absent: it has none. */
  whole?: string;
}

export interface Verdict {
  /** One number, or named components with the names of rows and metrics. */
  score: number | Record<string, number>;
  /** What was compared, as upstream shows it; null if nothing was found. */
  extracted_answer: string | null;
}

/** Throws `EnvironmentRejected` for a ground truth that it cannot compare with. */
export type PureVerifier = (input: VerifierInput) => Verdict;

/** Also throws the faults of its process. */
export type Verifier = (input: VerifierInput, signal: AbortSignal) => Promise<Verdict>;

/** The ground truth of a verifier that compares texts. Throws for anything else, which upstream scores 0. */
export function groundTruthText(ground_truth: unknown, verifier: string): string {
  if (typeof ground_truth === 'string') return ground_truth;
  throw rejected({ subject: verifier, problems: groundTruthProblems({ ground_truth }) });
}

/** The same of a sample's `extra_env_info`, before anything is generated. */
export function groundTruthProblems({ ground_truth }: { ground_truth?: unknown }): Problem[] {
  if (typeof ground_truth === 'string') return [];
  return [{ where: 'ground_truth', what: `expected a string, got ${preview(ground_truth)}` }];
}
