import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { act, parseAction } from '../../../src/environments/sliding-puzzle/actions.js';
import { almostSolved, readGolden, readTrajectories } from './goldens.js';

describe('parseAction', () => {
  test('reads every recorded reply as upstream does', () => {
    const { cases } = readGolden('parse_action') as {
      cases: { text: string; action: string | null }[];
    };
    assert.equal(cases.length, 17);
    for (const { text, action } of cases) assert.equal(parseAction(text), action, text);
    for (const [name, { turns }] of readTrajectories()) {
      for (const { message, parsed_action } of turns) {
        assert.equal(parseAction(message.content), parsed_action, name);
      }
    }
  });

  test('strips what Python calls white space, and nothing else', () => {
    assert.equal(parseAction('<action>\x1f\x85\u3000up\u2029\n</action>'), 'up');
    assert.equal(parseAction('<action>\ufeffup</action>'), '\ufeffup');
  });
});

describe('act', () => {
  const response = (action: string): string => act(action, almostSolved()).response;

  test('answers each kind of move', () => {
    assert.equal(response('right'), 'Slid tile 7 right.');
    assert.equal(response('down'), 'Slid tile 5 down.');
    assert.equal(response('up'), 'Cannot slide up.');
    assert.equal(response('slide 2 2'), 'Slid tile 5 into the empty space.');
    assert.equal(response('slide 1 1'), 'Tile must be adjacent to the empty space.');
    assert.equal(response('slide 9 1'), 'Invalid position. Row/column must be between 1 and 3.');
    assert.equal(response('slide -0 1'), 'Invalid position. Row/column must be between 1 and 3.');
    assert.equal(response('slide x'), 'Invalid input format. Use: slide row col');
    for (const unknown of ['fly', 'Left', 'slide', 'SLIDE 3 3', '', 'constructor']) {
      assert.equal(response(unknown), "Unknown command. Type 'help' to see available commands.");
    }
  });

  test('reads numbers as Python does', () => {
    for (const action of ['slide +2 2', 'slide 0_2 \t02', 'slide ٢ ２', 'slide 𝟐 𝟸']) {
      assert.equal(response(action), 'Slid tile 5 into the empty space.', action);
    }
    for (const action of [
      'slide 2.0 2',
      'slide 2 2 2',
      'slide 2__0 2',
      'slide _2 2',
      'slide ² 2',
      'slide 0x2 2',
    ]) {
      assert.equal(response(action), 'Invalid input format. Use: slide row col', action);
    }
  });

  test('congratulates on the slide that solves the board, whichever way it is said', () => {
    for (const action of ['left', 'slide 3 3']) {
      const { response: text, solved, state } = act(action, almostSolved());
      assert.equal(text, "Congratulations! You've solved the puzzle!");
      assert.equal(solved, true);
      assert.deepEqual(state.grid, state.solution);
    }
  });

  test('does not congratulate on a board that was solved before, while no tile moves', () => {
    const solved = {
      ...almostSolved(),
      grid: almostSolved().solution,
      empty_pos: [2, 2] as [number, number],
    };
    assert.deepEqual(act('left', solved), {
      response: 'Cannot slide left.',
      solved: false,
      state: solved,
    });
  });
});
