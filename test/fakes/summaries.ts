import assert from 'node:assert/strict';
import type { Summary } from '../../src/model/results/summary.js';

/** A rollout that terminated after one turn, except for the given fields. */
export const summaryOf = (given: Partial<Summary> = {}): Summary => ({
  row: 0,
  repeat: 0,
  replaces: null,
  task_name: 'task',
  stop_reason: 'terminated',
  failure: null,
  reward: 0,
  rewards: {},
  terminated: false,
  truncated: false,
  max_turns_reached: false,
  turns: 1,
  gen_tokens: 1,
  env_tokens: 1,
  max_gen_tokens: 1,
  queue_s: 0,
  generate_s: 0,
  step_s: 0,
  wall_s: 0,
  started_at: 0,
  ended_at: 0,
  attempts: 1,
  lost_s: 0,
  inherited_tokens: 0,
  wasted_tokens: 0,
  faults: {},
  overlong: false,
  ...given,
});

/** Equal but for rounding. */
export function near(actual: number | undefined, expected: number): void {
  assert.ok(
    actual !== undefined && Math.abs(actual - expected) < 1e-9,
    `expected ${expected}, got ${String(actual)}`,
  );
}
