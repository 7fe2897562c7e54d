import { createHash } from 'node:crypto';
import type { EnvironmentMessage, FinishedRollout, FinishedRollouts } from '../environment.js';

/**
 * Upstream's metrics of a batch, as far as finished rollouts show them; float32 means. Upstream's lengths
 * (`generation_lengths`, `prompt_lengths`, `correct_solution_generation_lengths`) are tokens, and its `is_end`
 * (`fraction_of_samples_properly_ended`, and reward 0 for the others) is truncation. Both are the batch's own metrics,
 * since an environment sees only texts and rewards. `pass@samples_per_prompt`: the share of different prompts with a
 * reward above 0.
 */
export async function answerMetrics(rollouts: FinishedRollouts): Promise<Record<string, number>> {
  let count = 0;
  let sum = 0;
  const passed = new Map<string, boolean>();
  for await (const { message_log, ...finished } of rollouts) {
    const reward = correctnessOf(finished);
    count += 1;
    sum += reward;
    const prompt = promptOf(message_log);
    passed.set(prompt, (passed.get(prompt) ?? false) || reward > 0);
  }
  if (count === 0) return {};
  const passes = [...passed.values()].filter(Boolean).length;
  return {
    accuracy: Math.fround(sum / count),
    'pass@samples_per_prompt': Math.fround(passes / passed.size),
    num_problems_in_batch: count,
  };
}

/** With several components, upstream counts only correctness. */
const correctnessOf = ({
  rewards,
  total_reward,
}: Pick<FinishedRollout, 'rewards' | 'total_reward'>): number =>
  rewards['reward/correctness'] ?? total_reward;

/** The messages before the answer. A rollout ends with its first step, so the answer is the assistant's last message. */
function promptOf(log: EnvironmentMessage[]): string {
  const answer = log.findLastIndex(({ role }) => role === 'assistant');
  const prompt = log.slice(0, Math.max(answer, 0)).map(({ role, content }) => [role, content]);
  // Hashes, because a batch may have tens of thousands of prompts.
  return createHash('sha256').update(JSON.stringify(prompt)).digest('base64');
}
