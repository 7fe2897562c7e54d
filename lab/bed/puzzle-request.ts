import type { z } from 'zod';
import { generateSamples } from '../../src/environments/sliding-puzzle/generate-samples.js';
import type { BatchRequest } from '../../src/model/batch-request.js';

/** A small batch of sliding puzzles for the simulator, on boards of 2x2 to 4x4: some are solved in few turns. */
export function puzzleRequest(
  size: { samples: number; num_repeats: number },
  change: Partial<z.input<typeof BatchRequest>> = {},
): z.input<typeof BatchRequest> {
  return {
    samples: generateSamples({
      count: size.samples,
      seed: 7,
      size: 4,
      shuffle_moves: 101,
      max_moves: 100,
    }),
    num_repeats: size.num_repeats,
    generation: { max_new_tokens: 64, seed: 3 },
    max_seq_len: 8192,
    max_rollout_turns: 5,
    ...change,
  };
}
