import type { Alignment } from './statistics/alignment.js';
import type { Rows } from './statistics/describe.js';
import type { Keyed } from './statistics/key-order.js';

/** How much of what was requested exists; upstream's names. */
export interface CompletionSummary {
  expected_rollout_rows: number;
  completed_rollout_rows: number;
  missing_rollout_rows: number;
  extra_rollout_rows: number;
  reward_profile_completion_pct: number;
  total_input_rows: number;
  complete_input_rows: number;
  partial_input_rows: number;
  missing_input_rows: number;
}

export function completionSummary(
  inputs: Keyed,
  { all, missing, extra }: Alignment,
): CompletionSummary {
  const missingByTask = countByTask(inputs, missing);
  const inputByTask = countByTask(inputs, all);
  const counts = { complete: 0, partial: 0, missing: 0 };
  for (const [task, expected] of inputByTask) {
    const lacking = missingByTask.get(task) ?? 0;
    counts[lacking === 0 ? 'complete' : lacking < expected ? 'partial' : 'missing'] += 1;
  }
  const expected = all.length;
  const completed = expected - missing.length;
  return {
    expected_rollout_rows: expected,
    completed_rollout_rows: completed,
    missing_rollout_rows: missing.length,
    extra_rollout_rows: extra.length,
    reward_profile_completion_pct: expected === 0 ? 100 : (100 * completed) / expected,
    total_input_rows: inputByTask.size,
    complete_input_rows: counts.complete,
    partial_input_rows: counts.partial,
    missing_input_rows: counts.missing,
  };
}

/** How many of some rows each task has. */
export function countByTask(keyed: Keyed, rows: Rows): Map<number, number> {
  const counts = new Map<number, number>();
  for (const row of rows) {
    const { task } = keyed.keyOf(row);
    counts.set(task, (counts.get(task) ?? 0) + 1);
  }
  return counts;
}
