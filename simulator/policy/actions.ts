import { DIRECTIONS, slide, type Board, type Direction } from './board.js';
import { createDistances } from './distances.js';
import {
  createDistribution,
  divisor,
  softmax,
  type Distribution,
  type LogprobsMode,
  type Option,
  type Sampling,
} from './distribution.js';
import { createMemo } from './memo.js';

/** How often something other than a legal move is said, without any skill. */
const SLIPS = 0.1;
const UNTAGGED = 'No move looks right.';

export interface ActionRequest {
  board: Board;
  /** 0: all legal moves are equally likely. */
  skill: number;
  sampling: Sampling;
  mode: LogprobsMode;
}

/**
 * What is said about a board: legal moves by softmax(-skill x distance after the move / temperature). Sometimes, less
 * often with more skill, a look at the board, an illegal move or an answer without a tag.
 */
export function createActions(): (request: ActionRequest) => Distribution {
  const distanceOf = createDistances();
  const memo = createMemo<Distribution>(500);
  return ({ board, skill, sampling, mode }) => {
    const distances = DIRECTIONS.map((direction) => {
      const moved = slide(board, direction);
      return moved === null ? null : distanceOf(moved);
    });
    const { temperature, top_p, top_k, min_p } = sampling;
    const nearest = Math.min(...distances.filter((distance) => distance !== null));
    // Only the difference to the best move counts, so few boards need their own distribution.
    const costs = distances.map((distance) => (distance === null ? null : distance - nearest));
    const key = JSON.stringify([costs, skill, temperature, top_p, top_k, min_p, mode]);
    return memo(key, () =>
      createDistribution((by) => optionsFor(costs, { skill, sampling: by }), { sampling, mode }),
    );
  };
}

/** `costs` in the order of DIRECTIONS, null for an illegal move. */
function optionsFor(
  costs: readonly (number | null)[],
  { skill, sampling }: Omit<ActionRequest, 'board' | 'mode'>,
): Option[] {
  const moves = DIRECTIONS.map((direction, i) => ({ direction, cost: costs[i] ?? null }));
  const legal = moves.filter((move): move is Move => move.cost !== null);
  const slips = [
    tagged('view'),
    ...moves.filter(({ cost }) => cost === null).map(({ direction }) => tagged(direction)),
    UNTAGGED,
  ];
  const slipping = SLIPS * Math.exp(-skill);
  const shares = softmax(legal.map(({ cost }) => (-skill * cost) / divisor(sampling)));
  return [
    ...legal.map(({ direction }, i) => ({
      text: tagged(direction),
      probability: (1 - slipping) * (shares[i] ?? 0),
    })),
    ...slips.map((text) => ({ text, probability: slipping / slips.length })),
  ];
}

interface Move {
  direction: Direction;
  cost: number;
}

function tagged(action: string): string {
  return `<action>${action}</action>`;
}
