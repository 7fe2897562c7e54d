import { parseIntText } from '../../platform/python/numbers.js';
import { countCodePoints, splitWords, strip } from '../../platform/python/text.js';
import { isSolved, slide, type GameState } from './board.js';

const OPEN = '<action>';
const CLOSE = '</action>';

/** The text in the last `<action>…</action>` of a reply, its case kept; null when there is no complete tag. */
export function parseAction(reply: string): string | null {
  const lower = reply.toLowerCase();
  const open = lower.lastIndexOf(OPEN);
  if (open === -1) return null;
  const close = lower.indexOf(CLOSE, open + OPEN.length);
  if (close === -1) return null;
  // Upstream finds the tags in the lower-cased text and cuts the original at the same places, counted in
  // code points. "İ" has one more of them in lower case, so the cut moves; kept, to score replies the same.
  const start = indexOf(countCodePoints(lower.slice(0, open + OPEN.length)), reply);
  const end = indexOf(countCodePoints(lower.slice(0, close)), reply);
  return strip(reply.slice(start, end));
}

/** Where so many code points of a text end. */
function indexOf(codePoints: number, text: string): number {
  let at = 0;
  for (let count = 0; count < codePoints && at < text.length; count++)
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

export interface Outcome {
  response: string;
  solved: boolean;
  /** The state after the action; unchanged if no tile moved. */
  state: GameState;
}

/** Carries out an action; any text gets an answer. `view` is handled before. */
export function act(action: string, state: GameState): Outcome {
  const move = action.startsWith('slide ') ? slideTo(action, state) : slideIn(action, state);
  if ('refusal' in move) return { response: move.refusal, solved: false, state };
  if (!isSolved(move.state)) return { response: move.response, solved: false, state: move.state };
  return {
    response: "Congratulations! You've solved the puzzle!",
    solved: true,
    state: move.state,
  };
}

type Move = { response: string; state: GameState } | { refusal: string };

/** Position of the moving tile relative to the empty space. */
const DIRECTIONS = new Map<string, readonly [rows: number, columns: number]>([
  ['up', [1, 0]],
  ['down', [-1, 0]],
  ['left', [0, 1]],
  ['right', [0, -1]],
]);

function slideIn(direction: string, state: GameState): Move {
  const offset = DIRECTIONS.get(direction);
  if (offset === undefined) {
    return { refusal: "Unknown command. Type 'help' to see available commands." };
  }
  const [row, column] = state.empty_pos;
  const slid = slide(state, [row + offset[0], column + offset[1]]);
  if (slid === null) return { refusal: `Cannot slide ${direction}.` };
  return { response: `Slid tile ${slid.tile} ${direction}.`, state: slid.state };
}

/** `slide <row> <column>`, counted from 1. */
function slideTo(action: string, state: GameState): Move {
  const [row, column, ...more] = splitWords(action).slice(1).map(parseIntText);
  if (typeof row !== 'number' || typeof column !== 'number' || more.length > 0) {
    return { refusal: 'Invalid input format. Use: slide row col' };
  }
  if ([row, column].some((index) => index < 1 || index > state.size)) {
    return { refusal: `Invalid position. Row/column must be between 1 and ${state.size}.` };
  }
  const slid = slide(state, [row - 1, column - 1]);
  if (slid === null) return { refusal: 'Tile must be adjacent to the empty space.' };
  return { response: `Slid tile ${slid.tile} into the empty space.`, state: slid.state };
}
