/** The sliding puzzle as far as the policy needs it: boards in text, and moves. */

/** Row by row; 0 is the empty space. */
export interface Board {
  size: number;
  tiles: readonly number[];
}

export const DIRECTIONS = ['up', 'down', 'left', 'right'] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** The board after a tile slid in this direction, or null when none can: `up` moves the tile below the empty space. */
export function slide({ size, tiles }: Board, direction: Direction): Board | null {
  const empty = tiles.indexOf(0);
  const column = empty % size;
  if (direction === 'left' && column === size - 1) return null;
  if (direction === 'right' && column === 0) return null;
  const offset = { up: size, down: -size, left: 1, right: -1 }[direction];
  const tile = tiles[empty + offset];
  return tile === undefined ? null : { size, tiles: swapWithEmpty(tiles, tile) };
}

function swapWithEmpty(tiles: readonly number[], tile: number): number[] {
  return tiles.map((other) => (other === 0 ? tile : other === tile ? 0 : other));
}

/**
 * The board at the end of a conversation: the last rendered one, then every slide that the environment confirmed after
 * it, since it renders no board after a move. null if there is none.
 */
export function currentBoard(text: string): Board | null {
  const end = text.lastIndexOf('|\n  +-');
  const start = text.lastIndexOf('-+\n1 |', end);
  if (end === -1 || start === -1) return null;
  const board = parseRows(text.slice(start + 3, end + 1).split('\n'));
  return board === null ? null : replay(board, text.slice(end));
}

function parseRows(rows: string[]): Board | null {
  const size = rows.length;
  const tiles = rows.flatMap((row) => parseRow(row, size) ?? []);
  const numbers = new Set(tiles);
  const complete = numbers.size === size * size && Math.max(...tiles) === size * size - 1;
  return complete && tiles.length === numbers.size ? { size, tiles } : null;
}

/** Cells of equal width; a blank one is the empty space. */
function parseRow(row: string, size: number): number[] | null {
  const cells = /^\d+ \|([ \d]+)\|$/.exec(row)?.[1];
  if (cells === undefined || cells.length % size !== 0) return null;
  const width = cells.length / size;
  return Array.from({ length: size }, (_cell, column) =>
    Number(cells.slice(column * width, (column + 1) * width)),
  );
}

const SLID = /<environment>\nSlid tile (\d+) (?:up|down|left|right|into the empty space)\./g;

/** A slide that this board does not allow is ignored: the text is not of this game. */
function replay(board: Board, text: string): Board {
  let { tiles } = board;
  for (const [, tile] of text.matchAll(SLID)) {
    if (areNeighbours({ size: board.size, tiles }, Number(tile))) {
      tiles = swapWithEmpty(tiles, Number(tile));
    }
  }
  return { size: board.size, tiles };
}

function areNeighbours({ size, tiles }: Board, tile: number): boolean {
  const from = tiles.indexOf(tile);
  const empty = tiles.indexOf(0);
  if (from === -1) return false;
  const rows = Math.abs(Math.floor(from / size) - Math.floor(empty / size));
  return rows + Math.abs((from % size) - (empty % size)) === 1;
}
