import { DIRECTIONS, slide, type Board } from './board.js';

/** Boards in the distance table, per size: all of 2x2, 16 slides deep for 3x3, about 12 for larger ones. */
const MAX_BOARDS = 20_000;
/** Tables for larger boards are not worth their memory. */
const MAX_SIZE = 8;

interface Table {
  distances: ReadonlyMap<string, number>;
  /** Every board up to this distance is in the table. */
  depth: number;
}

/**
 * How many slides a board is from solved: exact near the solved board; further away the Manhattan distance of its
 * tiles, but at least one more than what the table reaches. Tables are built at the first board of a size.
 */
export function createDistances(): (board: Board) => number {
  const tables = new Map<number, Table>();
  const tableFor = (size: number): Table => {
    let table = tables.get(size);
    if (table === undefined) {
      table = searchFromSolved(size);
      tables.set(size, table);
    }
    return table;
  };
  return (board) => {
    if (board.size > MAX_SIZE) return manhattan(board);
    const { distances, depth } = tableFor(board.size);
    return distances.get(keyOf(board)) ?? Math.max(depth + 1, manhattan(board));
  };
}

/** Breadth first, only whole levels. Ends when a level has no new boards or the next might exceed the bound. */
function searchFromSolved(size: number): Table {
  const distances = new Map<string, number>();
  let level: Board[] = [solved(size)];
  let depth = -1;
  while (level.length > 0 && distances.size + level.length <= MAX_BOARDS) {
    depth += 1;
    for (const board of level) distances.set(keyOf(board), depth);
    level = nextLevel(level, distances);
  }
  return { distances, depth };
}

function nextLevel(level: Board[], known: ReadonlyMap<string, number>): Board[] {
  const next = new Map<string, Board>();
  for (const board of level) {
    for (const direction of DIRECTIONS) {
      const moved = slide(board, direction);
      if (moved !== null && !known.has(keyOf(moved))) next.set(keyOf(moved), moved);
    }
  }
  return [...next.values()];
}

function solved(size: number): Board {
  const last = size * size;
  return { size, tiles: Array.from({ length: last }, (_tile, i) => (i + 1) % last) };
}

function keyOf({ tiles }: Board): string {
  return String.fromCharCode(...tiles);
}

function manhattan({ size, tiles }: Board): number {
  let sum = 0;
  tiles.forEach((tile, i) => {
    if (tile === 0) return;
    const home = tile - 1;
    sum += Math.abs(Math.floor(home / size) - Math.floor(i / size));
    sum += Math.abs((home % size) - (i % size));
  });
  return sum;
}
