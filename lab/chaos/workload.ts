import type { z } from 'zod';
import { GENERATION, MAX_SEQ_LEN } from '../bench/scenario.js';
import { puzzleSamples } from '../bench/samples.js';
import type { BatchRequest } from '../../src/model/batch-request.js';
import type { SimulatorSettings } from '../../simulator/settings.js';

/** What is played under each fault. All rollouts are in flight at once, and none ends before its last turn. */
export interface Workload {
  rollouts: number;
  turns: number;
  /** Speed of each stream. */
  tokens_per_second: number;
  /** A turn has some 25 tokens more. */
  thinking_tokens: number;
}

export const LONG: Workload = {
  rollouts: 12,
  turns: 6,
  tokens_per_second: 200,
  thinking_tokens: 160,
};
export const SHORT: Workload = { ...LONG, rollouts: 4, turns: 3, thinking_tokens: 120 };

/** Heartbeat timeout of the workers, shorter than the default, so that a dead worker is noticed soon. */
export const HEARTBEAT_TIMEOUT_S = 2;
export const FIRST_TOKEN_TIMEOUT_S = 4;
export const IDLE_TIMEOUT_S = 2;

/** Every contender has the same boards and seeds, so the same games, unless something is sampled twice. */
export function requestOf({ rollouts, turns }: Workload): z.input<typeof BatchRequest> {
  return {
    samples: puzzleSamples(rollouts),
    generation: GENERATION,
    max_seq_len: MAX_SEQ_LEN,
    max_rollout_turns: turns,
    rollout_timeout: '10m',
  };
}

export function simulatorSettingsOf({
  tokens_per_second,
  thinking_tokens,
}: Workload): Omit<z.input<typeof SimulatorSettings>, 'log_file'> {
  return {
    tokens_per_second,
    thinking_tokens,
    ms_to_first_token: 20,
    skill: 0,
    max_model_len: MAX_SEQ_LEN,
    log_tokens: true,
  };
}
