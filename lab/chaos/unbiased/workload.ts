import type { z } from 'zod';
import type { PuzzleSample } from '../../../src/environments/sliding-puzzle/generate-samples.js';
import type { BatchRequest } from '../../../src/model/batch-request.js';
import { hash32 } from '../../../src/model/workflow-safe/hash32.js';
import type { SimulatorSettings } from '../../../simulator/settings.js';
import { equalSamples } from '../../bench/samples.js';

/**
 * What every arm plays: the same board again and again, so lengths and rewards of an arm are independent and from one
 * distribution. The length and content of a turn are the policy's draws, token by token.
 */

const SAMPLES = 2;
const REPEATS = 300;
export const ROLLOUTS = SAMPLES * REPEATS;
const MAX_IN_FLIGHT = 64;

/** The policy plays at random, so about three of five rollouts solve it in time. */
const MAX_TURNS = 3;

export const TOKENS_PER_SECOND = 200;
/** An action and the newline before it add some 25 tokens: a turn takes 0.2 to 4 s, a rollout up to 12 s. */
const THINKING_TOKENS: [min: number, max: number] = [8, 780];

export const HEARTBEAT_TIMEOUT_S = 2;
export const KILL_EVERY_S = 3 * HEARTBEAT_TIMEOUT_S;

/**
 * Timeout of the first token and between tokens: a killed engine is noticed at once, and a living one is never given
 * up.
 */
export const STREAM_TIMEOUT_S = 20;

export const SIMULATOR: Omit<z.input<typeof SimulatorSettings>, 'log_file'> = {
  tokens_per_second: TOKENS_PER_SECOND,
  ms_to_first_token: 10,
  thinking_tokens: THINKING_TOKENS,
  skill: 0,
};

/** Each arm has its own seed, because equal draws would look alike in any case. */
export function requestOf(
  arm: number,
  seed: number,
): z.input<typeof BatchRequest> & { samples: PuzzleSample[] } {
  return {
    samples: equalSamples(SAMPLES),
    num_repeats: REPEATS,
    generation: { max_new_tokens: 2048, seed: hash32([seed, arm]) },
    max_seq_len: 8192,
    max_rollout_turns: MAX_TURNS,
    max_in_flight: MAX_IN_FLIGHT,
    rollout_timeout: '1h',
  };
}
