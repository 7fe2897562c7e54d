import { z } from 'zod';

/** The board of a sliding puzzle, upstream's `game_state`. 0 is the empty space. */

const Tiles = z.array(z.array(z.int().nonnegative()));

/** Rows before columns, from 0 at the top left. */
const Position = z.tuple([z.int().nonnegative(), z.int().nonnegative()]);
type Position = z.infer<typeof Position>;

/** Unknown keys are kept: the state is part of the rollout's row. */
export const GameState = z
  .looseObject({ size: z.int().positive(), grid: Tiles, solution: Tiles, empty_pos: Position })
  .superRefine((state, context) => {
    for (const name of ['grid', 'solution'] as const) {
      if (!isSquare(state[name], state.size)) {
        const message = `expected ${state.size} rows of ${state.size} tiles`;
        context.addIssue({ code: 'custom', path: [name], message });
      }
    }
    if (tileAt(state.grid, state.empty_pos) !== 0) {
      const message = 'expected the row and column of the empty space (0) in grid, counted from 0';
      context.addIssue({ code: 'custom', path: ['empty_pos'], message });
    }
  });
export type GameState = z.infer<typeof GameState>;

function isSquare(tiles: number[][], size: number): boolean {
  return tiles.length === size && tiles.every((row) => row.length === size);
}

function tileAt(tiles: number[][], [row, column]: Position): number | undefined {
  return tiles[row]?.[column];
}

export interface BoardSettings {
  size: number;
  /** Random slides from the solved board. An odd number never ends on the solved board. */
  shuffle_moves: number;
}

const COMMANDS = {
  up: 'Slide tile below empty space up',
  down: 'Slide tile above empty space down',
  left: 'Slide tile to the right of empty space left',
  right: 'Slide tile to the left of empty space right',
  view: 'View the current state of the board',
};

/** Shuffles a solved board. `random` gives numbers in [0, 1); equal numbers give equal boards. */
export function generate({ size, shuffle_moves }: BoardSettings, random: () => number): GameState {
  const solution = solvedTiles(size);
  let state: GameState = {
    size,
    grid: solution,
    solution,
    empty_pos: [size - 1, size - 1],
    commands: COMMANDS,
  };
  for (let move = 0; move < shuffle_moves; move++) {
    const choices = neighboursOfEmpty(state);
    const choice = choices[Math.floor(random() * choices.length)];
    const slid = choice === undefined ? null : slide(state, choice);
    if (slid !== null) state = slid.state;
  }
  return state;
}

function solvedTiles(size: number): number[][] {
  const last = size * size;
  return Array.from({ length: size }, (_row, row) =>
    Array.from({ length: size }, (_column, column) => (row * size + column + 1) % last),
  );
}

/** In upstream's order: right, down, left, up. */
function neighboursOfEmpty({ size, empty_pos: [row, column] }: GameState): Position[] {
  const around: Position[] = [
    [row, column + 1],
    [row + 1, column],
    [row, column - 1],
    [row - 1, column],
  ];
  return around.filter((position) => position.every((index) => index >= 0 && index < size));
}

export interface Slid {
  tile: number;
  state: GameState;
}

/** Slides the tile at `from` into the empty space; null if no tile there is next to the empty space. */
export function slide(state: GameState, from: Position): Slid | null {
  const [row, column] = from;
  const [emptyRow, emptyColumn] = state.empty_pos;
  const tile = tileAt(state.grid, from);
  if (tile === undefined || Math.abs(row - emptyRow) + Math.abs(column - emptyColumn) !== 1) {
    return null;
  }
  const grid = state.grid.map((tiles) => [...tiles]);
  grid[emptyRow]?.splice(emptyColumn, 1, tile);
  grid[row]?.splice(column, 1, 0);
  return { tile, state: { ...state, grid, empty_pos: from } };
}

export function isSolved({ grid, solution }: GameState): boolean {
  return grid.every((tiles, row) =>
    tiles.every((tile, column) => tile === solution[row]?.[column]),
  );
}

/** The board as text: two newlines first, no newline last. */
export function render({ size, grid }: GameState): string {
  const digits = String(size * size - 1).length;
  const width = digits + 2;
  const border = `  +${'-'.repeat(width * size)}+`;
  const rows = grid.map((tiles, row) => {
    const cells = tiles.map((tile) => (tile === 0 ? '' : ` ${String(tile).padStart(digits)} `));
    return `${row + 1} |${cells.map((cell) => cell.padEnd(width)).join('')}|`;
  });
  const labels = Array.from({ length: size }, (_label, column) => centre(column + 1, width));
  return ['\n', border, ...rows, border, `    ${labels.join('')}`].join('\n');
}

/** If the remaining width is odd, the right side gets more, as with Python's `^`. */
function centre(label: number, width: number): string {
  const text = String(label);
  return text.padStart(text.length + Math.floor((width - text.length) / 2)).padEnd(width);
}

export function welcome({ size }: GameState): string {
  return [
    '',
    '===== SLIDING PUZZLE =====',
    `Arrange the ${size}x${size} grid by sliding tiles into the empty space.`,
    `- The goal is to arrange numbers from 1 to ${size * size - 1} in order`,
    "- Use 'up', 'down', 'left', 'right' to slide in that direction",
    "- Use 'view' to see the current state of the board",
  ].join('\n');
}
