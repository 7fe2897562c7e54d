import { countCodePoints, splitWords, strip } from '../../platform/python/text.js';

/**
 * How alike two texts are, from 0 to 1: shared words over all words, times the shorter length over the longer
 * (upstream statement 80). White space around and case make no difference; equal texts score 1, empty ones too.
 */
export function codeSimilarity(response: string, ground_truth: string): number {
  const said = strip(response).toLowerCase();
  const expected = strip(ground_truth).toLowerCase();
  if (said === expected) return 1;
  const saidWords = new Set(splitWords(said));
  const expectedWords = new Set(splitWords(expected));
  if (expectedWords.size === 0) return 0;
  const shared = [...saidWords].filter((word) => expectedWords.has(word)).length;
  const all = saidWords.size + expectedWords.size - shared;
  const [shorter = 0, longer = 0] = [said, expected].map(countCodePoints).sort((a, b) => a - b);
  return (shared / all) * (shorter / longer);
}
