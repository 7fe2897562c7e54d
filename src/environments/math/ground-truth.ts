import { preview } from '../../model/problems.js';
import { rejected } from '../rejections.js';

/** The ground truth of a verifier that compares texts; any other is rejected, upstream's score for it being 0. */
export function groundTruthText(ground_truth: unknown, verifier: string): string {
  if (typeof ground_truth === 'string') return ground_truth;
  const what = `expected a string, got ${preview(ground_truth)}`;
  throw rejected({ subject: verifier, problems: [{ where: 'ground_truth', what }] });
}
