import { generate } from '../../src/environments/sliding-puzzle/board.js';
import { STOP_STRING, taskPrompt } from '../../src/environments/sliding-puzzle/prompt.js';
import type { PuzzleSample } from '../../src/environments/sliding-puzzle/generate-samples.js';
import { hash32 } from '../../src/model/workflow-safe/hash32.js';

/** Far more slides than turns, and more moves than turns, so no rollout ends before its last turn. */
const BOARD = { size: 4, shuffle_moves: 401 };
const MAX_MOVES = 1000;

/** 4x4 boards, one for each rollout; row n is the same in every run. */
export const puzzleSamples = (count: number): PuzzleSample[] =>
  Array.from({ length: count }, (_, idx) => {
    let drawn = 0;
    const random = (): number => hash32([idx, drawn++]) / 2 ** 32;
    return puzzleOf(idx, { game_state: generate(BOARD, random), max_moves: MAX_MOVES });
  });

/** One slide from solved, again and again: lengths and rewards depend on the policy's draws alone. */
export const equalSamples = (count: number): PuzzleSample[] =>
  Array.from({ length: count }, (_, idx) =>
    puzzleOf(idx, {
      game_state: generate({ size: 2, shuffle_moves: 1 }, () => 0),
      max_moves: 100,
    }),
  );

const puzzleOf = (
  idx: number,
  { game_state, max_moves }: { game_state: ReturnType<typeof generate>; max_moves: number },
): PuzzleSample => ({
  message_log: [{ role: 'user', content: taskPrompt(game_state) }],
  task_name: 'sliding_puzzle',
  extra_env_info: { game_state, num_moves: 0, max_moves },
  idx,
  stop_strings: [STOP_STRING],
});
