import type { BatchRequest } from '../batch-request.js';
import { isValid } from './metrics.js';
import type { Summary } from './summary.js';

/**
 * What is true of all valid rollouts of a batch, and rarely meant, in words for people. One rollout alone shows nothing.
 */
export function notesOf(
  summaries: readonly Summary[],
  { generation: { max_new_tokens }, max_seq_len }: Pick<BatchRequest, 'generation' | 'max_seq_len'>,
): string[] {
  const valid = summaries.filter(isValid);
  const [first] = valid;
  if (first === undefined || valid.length < 2) return [];
  const all = `all ${valid.length} valid rollouts`;
  const isCut = valid.every(({ max_gen_tokens }) => max_gen_tokens === max_new_tokens);
  const limit = isCut
    ? `max_new_tokens ${max_new_tokens} is too small`
    : `by max_seq_len ${max_seq_len}, a limit that was changed, or their environment`;
  const notes: [isTrue: boolean, note: string][] = [
    [valid.every(({ truncated }) => truncated), `${all} are truncated: ${limit}`],
    [
      first.reward <= 0 && valid.every(({ reward }) => reward === first.reward),
      `${all} have the reward ${first.reward}`,
    ],
    [
      first.sampled !== undefined && valid.every(({ sampled }) => sampled === first.sampled),
      `in ${all} the policy says the same text`,
    ],
  ];
  return notes.filter(([isTrue]) => isTrue).map(([, note]) => note);
}
