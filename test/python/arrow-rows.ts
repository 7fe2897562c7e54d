import { readJson } from '../../src/platform/json/kept.js';
import type { Row } from '../../src/model/results/row.js';

/** A row of one turn whose answer has so many tokens. */
export function row({
  tokens,
  content = 'text',
  version = null,
  info = '{}',
  logprobs_mode = 'processed',
}: {
  tokens: number;
  content?: string;
  version?: string | null;
  /** JSON text. */
  info?: string;
  logprobs_mode?: Row['logprobs_mode'];
}): Row {
  const token_ids = Array.from({ length: tokens }, (_, id) => (id * 7919) % 150_000);
  const generation_logprobs = token_ids.map((id) => -((id % 97) + 0.1) / 31);
  const run = { start: 0, end: tokens };
  return {
    ...{ task_name: 'task', schema_version: 1, rollout_id: 'batch/0-0', batch_id: 'batch' },
    ...{ row: 0, repeat: 0, idx: 0, loss_multiplier: 0.1, total_reward: 1 / 3, rewards: {} },
    message_log: [
      { role: 'user', content, token_ids: [1, 2], generation_logprobs: [-0.5, -1.25] },
      { role: 'assistant', content, token_ids, generation_logprobs },
    ],
    extra_env_info: readJson(info) as Row['extra_env_info'],
    ...{ prompt_tokens: 2, turn_rewards: [1 / 3], finish_reasons: ['stop'], turn_count: 1 },
    ...{ stop_reason: 'terminated', terminated: true, truncated: false, max_turns_reached: false },
    ...{ total_tokens: tokens, assistant_tokens: tokens, env_tokens: 0, attempts: 1 },
    train_mask: tokens === 0 ? [] : [{ start: 2, end: 2 + tokens }],
    policy_versions: tokens === 0 ? [] : [{ ...run, version }],
    segments: tokens === 0 ? [] : [{ ...run, turn: 0, replica: 'http://engine', request_id: 'r' }],
    ...{ version_source: 'none', restarted_turns: [], logprobs_mode },
    timing: { queue_s: 0, generate_s: 1, step_s: 0, wall_s: 1 },
  };
}
