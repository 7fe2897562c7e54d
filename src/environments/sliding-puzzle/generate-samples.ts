import { z } from 'zod';
import { generate, type GameState } from './board.js';
import { STOP_STRING, taskPrompt } from './prompt.js';

export const SampleOptions = z.strictObject({
  count: z.int().positive(),
  seed: z.int().nonnegative(),
  /** Boards are 2x2 up to size x size. */
  size: z.int().min(2),
  /** Boards are 1 up to this many random slides from solved; an even draw gets one more. */
  shuffle_moves: z.int().positive(),
  max_moves: z.int().positive(),
});
export type SampleOptions = z.infer<typeof SampleOptions>;

export interface PuzzleSample {
  message_log: { role: 'user'; content: string }[];
  task_name: 'sliding_puzzle';
  extra_env_info: { game_state: GameState; num_moves: 0; max_moves: number };
  idx: number;
  stop_strings: string[];
}

/** Samples drawn as upstream's example draws them. Equal options give equal samples. */
export function generateSamples(options: SampleOptions): PuzzleSample[] {
  const { count, seed, size, shuffle_moves, max_moves } = SampleOptions.parse(options);
  const random = mulberry32(seed);
  const between = (low: number, high: number): number =>
    low + Math.floor(random() * (high - low + 1));
  return Array.from({ length: count }, (_sample, idx) => {
    // Each slide moves the empty space to a square of the other colour, so no board is solved after an odd number of
    // them.
    const slides = between(1, shuffle_moves) | 1;
    const game_state = generate({ size: between(2, size), shuffle_moves: slides }, random);
    return {
      message_log: [{ role: 'user', content: taskPrompt(game_state) }],
      task_name: 'sliding_puzzle',
      extra_env_info: { game_state, num_moves: 0, max_moves },
      idx,
      stop_strings: [STOP_STRING],
    };
  });
}

/** A small generator of numbers in [0, 1): the same on every machine, good enough to shuffle boards. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
