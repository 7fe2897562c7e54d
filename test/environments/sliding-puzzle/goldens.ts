import { readdirSync, readFileSync } from 'node:fs';
import type { EnvironmentMessage, Metadata } from '../../../src/environments/environment.js';
import type { GameState } from '../../../src/environments/sliding-puzzle/board.js';

/** Recorded runs of upstream's code: see `test/goldens/README.md`. */
const FOLDER = new URL('../../goldens/puzzle/', import.meta.url);

export function readGolden(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'));
}

export interface Trajectory {
  initial: Metadata & { game_state: GameState };
  initial_board: string;
  welcome: string;
  turns: {
    message: EnvironmentMessage;
    parsed_action: string | null;
    observation: EnvironmentMessage;
    reward: number;
    terminated: boolean;
    stop_strings: string[] | null;
    metadata: Metadata | null;
  }[];
}

/** Every recorded game, by name. */
export function readTrajectories(): [name: string, trajectory: Trajectory][] {
  const names = readdirSync(FOLDER).filter((file) => /^(traj|solve)_\d+\.json$/.test(file));
  return names.map((file) => {
    const name = file.replace('.json', '');
    return [name, readGolden(name) as Trajectory];
  });
}

/** The board of upstream's 3x3 example: one slide from solved. */
export function almostSolved(): GameState {
  const solution = [
    [1, 2, 3],
    [4, 5, 6],
    [7, 8, 0],
  ];
  const grid = [
    [1, 2, 3],
    [4, 5, 6],
    [7, 0, 8],
  ];
  return { size: 3, grid, solution, empty_pos: [2, 1] };
}
