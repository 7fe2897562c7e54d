import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  generate,
  isSolved,
  render,
  slide,
  welcome,
  type GameState,
} from '../../../src/environments/sliding-puzzle/board.js';
import { almostSolved, readGolden, readTrajectories } from './goldens.js';

interface Generated {
  config: { size?: number; shuffle_moves?: number };
  state: GameState;
  board?: string;
  welcome?: string;
}
const recorded = (readGolden('generate') as { cases: Generated[] }).cases;

/** A board can be solved when its permutation is as even as the empty space's way home. */
function isSolvable({ size, grid, empty_pos: [row, column] }: GameState): boolean {
  const tiles = grid.flat().map((tile) => (tile === 0 ? size * size : tile));
  const inversions = tiles.flatMap((tile, i) => tiles.slice(i + 1).filter((later) => later < tile));
  return (inversions.length - (size - 1 - row) - (size - 1 - column)) % 2 === 0;
}

describe('the boards that upstream generated', () => {
  test('render to the same text', () => {
    const drawn = recorded.filter(({ board }) => board !== undefined);
    assert.equal(drawn.length, 12);
    for (const { state, board } of drawn) assert.equal(render(state), board);
    for (const [name, { initial, initial_board }] of readTrajectories()) {
      assert.equal(render(initial.game_state), initial_board, name);
    }
  });

  test('are welcomed with the same text', () => {
    for (const { state, welcome: text } of recorded) {
      if (text !== undefined) assert.equal(welcome(state), text);
    }
    for (const [name, { initial, welcome: text }] of readTrajectories()) {
      assert.equal(welcome(initial.game_state), text, name);
    }
  });

  test('have the solution and the commands that ours have, and can be solved', () => {
    for (const { state } of recorded) {
      const { solution, commands } = generate({ size: state.size, shuffle_moves: 0 }, () => 0);
      assert.deepEqual(
        { solution, commands },
        { solution: state.solution, commands: state['commands'] },
      );
      assert.ok(isSolvable(state));
    }
  });
});

describe('generate', () => {
  test('offers the moves of the empty space in the order right, down, left, up', () => {
    // From the bottom right corner: left, up. Then, one up: down, left, up.
    const draws = [0.99, 0.34];
    const { grid, empty_pos } = generate({ size: 3, shuffle_moves: 2 }, () => draws.shift()!);
    assert.deepEqual(empty_pos, [1, 1]);
    assert.deepEqual(grid, [
      [1, 2, 3],
      [4, 0, 5],
      [7, 8, 6],
    ]);
    const first = generate({ size: 3, shuffle_moves: 3 }, () => 0);
    assert.deepEqual(first.empty_pos, [2, 1], 'left, right, left: the first of what there is');
  });

  test('makes boards that can be solved, and after an odd number of slides are not yet', () => {
    const settings = fc.record({ size: fc.integer({ min: 2, max: 6 }), shuffle_moves: fc.nat(40) });
    const draws = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
      minLength: 40,
      maxLength: 40,
    });
    fc.assert(
      fc.property(settings, draws, (board, numbers) => {
        const state = generate(board, () => numbers.pop()!);
        assert.ok(isSolvable(state));
        assert.equal(state.grid[state.empty_pos[0]]?.[state.empty_pos[1]], 0);
        if (board.shuffle_moves % 2 === 1) assert.ok(!isSolved(state));
      }),
    );
  });

  test('leaves a board of one cell as it is, which no slide can change', () => {
    assert.deepEqual(generate({ size: 1, shuffle_moves: 3 }, () => 0).grid, [[0]]);
  });
});

describe('slide', () => {
  test('moves the tile and keeps the state it was given', () => {
    const before = almostSolved();
    const slid = slide(before, [2, 2]);
    assert.equal(slid?.tile, 8);
    assert.deepEqual(slid.state.grid, before.solution);
    assert.deepEqual(slid.state.empty_pos, [2, 2]);
    assert.deepEqual(before, almostSolved());
  });

  test('is null for a tile that is not beside the empty space, and off the board', () => {
    assert.equal(slide(almostSolved(), [0, 0]), null);
    assert.equal(slide(almostSolved(), [1, 2]), null, 'diagonal');
    assert.equal(slide(almostSolved(), [2, 1]), null, 'the empty space itself');
    assert.equal(slide(almostSolved(), [3, 1]), null);
  });
});
