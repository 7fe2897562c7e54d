import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { currentBoard, DIRECTIONS, slide, type Board } from '../../simulator/policy/board.js';
import { createDistances } from '../../simulator/policy/distances.js';
import { createRandom } from '../../simulator/random.js';
import {
  BOARD_2X2,
  BOARD_3X3,
  BOARD_5X5,
  observation,
  taskText,
  viewed,
} from './puzzle-prompts.js';

describe('board of a conversation', () => {
  test('it is read from the rendered grid, whatever its size', () => {
    assert.deepEqual(currentBoard(taskText(BOARD_2X2)), { size: 2, tiles: [0, 2, 1, 3] });
    assert.deepEqual(currentBoard(taskText(BOARD_3X3))?.tiles, [1, 2, 3, 4, 0, 6, 7, 5, 8]);
    assert.deepEqual(
      currentBoard(taskText(BOARD_5X5))?.tiles.slice(-7),
      [24, 19, 21, 22, 23, 0, 20],
    );
  });

  test('confirmed slides move its tiles, refused ones do not', () => {
    const text = [
      taskText(BOARD_2X2),
      'to \n<action>up</action>',
      observation('Slid tile 1 up.'),
      '\n<action>right</action>',
      observation('Cannot slide right.'),
      '\n<action>fly</action>',
      observation("Unknown command. Type 'help' to see available commands."),
    ].join('');
    assert.deepEqual(currentBoard(text)?.tiles, [1, 2, 0, 3]);
    const slidTo = text + observation('Slid tile 3 into the empty space.');
    assert.deepEqual(currentBoard(slidTo)?.tiles, [1, 2, 3, 0]);
  });

  test('a board that was looked at later replaces the earlier one and its slides', () => {
    const text = [
      taskText(BOARD_3X3),
      observation('Slid tile 5 up.'),
      viewed(BOARD_2X2),
      observation('Slid tile 2 left.'),
    ].join('');
    assert.deepEqual(currentBoard(text), { size: 2, tiles: [2, 0, 1, 3] });
  });

  test('text without a whole board has none', () => {
    assert.equal(currentBoard('What is 2 + 2?'), null);
    assert.equal(currentBoard('\n  +------+\n1 | 1  2 |\n2 | 1  3 |\n  +------+\n'), null);
    assert.equal(currentBoard('\n  +------+\n1 | 1  2 |\n2 |    7 |\n  +------+\n'), null);
  });
});

describe('distance to the solved board', () => {
  const distanceOf = createDistances();
  const solved = (size: number): Board => ({
    size,
    tiles: Array.from({ length: size * size }, (_tile, i) => (i + 1) % (size * size)),
  });

  test('all twelve boards of 2x2 are at most six slides away', () => {
    const seen = new Map([[solved(2).tiles.join(), solved(2)]]);
    for (const board of seen.values()) {
      for (const direction of DIRECTIONS) {
        const moved = slide(board, direction);
        if (moved !== null) seen.set(moved.tiles.join(), moved);
      }
    }
    const distances = Array.from(seen.values(), distanceOf).sort((a, b) => a - b);
    assert.deepEqual(distances, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
  });

  test('near the solved board every board has a neighbour that is one slide closer', () => {
    const random = createRandom(4);
    let board = solved(4);
    for (let step = 1; step <= 9; step++) {
      const moves = DIRECTIONS.flatMap((direction) => slide(board, direction) ?? []);
      const next = moves[Math.floor(random() * moves.length)];
      assert.ok(next !== undefined);
      board = next;
      const distance = distanceOf(board);
      assert.ok(distance <= step && (step - distance) % 2 === 0, `${distance} after ${step}`);
      if (distance === 0) continue;
      const around = DIRECTIONS.flatMap((direction) => slide(board, direction) ?? []);
      const distances = around.map(distanceOf);
      assert.equal(Math.min(...distances), distance - 1);
    }
  });
});
