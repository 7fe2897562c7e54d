import { generate } from '../../src/environments/sliding-puzzle/board.js';
import { STOP_STRING, taskPrompt } from '../../src/environments/sliding-puzzle/prompt.js';
import type { PuzzleSample } from '../../src/environments/sliding-puzzle/generate-samples.js';
import { hash32 } from '../../src/model/workflow-safe/hash32.js';

/** Far more slides than turns, and more moves than turns, so no rollout ends before its last turn. */
const BOARD = { size: 4, shuffle_moves: 401 };
const MAX_MOVES = 1000;

/** 4x4 boards, one for each rollout; row n is the same in every run. */
export function puzzleSamples(count: number): PuzzleSample[] {
  return Array.from({ length: count }, (_, idx) => {
    let drawn = 0;
    const random = (): number => hash32([idx, drawn++]) / 2 ** 32;
    const game_state = generate(BOARD, random);
    return {
      message_log: [{ role: 'user', content: taskPrompt(game_state) }],
      task_name: 'sliding_puzzle',
      extra_env_info: { game_state, num_moves: 0, max_moves: MAX_MOVES },
      idx,
      stop_strings: [STOP_STRING],
    };
  });
}
