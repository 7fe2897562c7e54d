import { render, welcome, type GameState } from './board.js';

/** Generation ends here: the tag stays in the reply. */
export const STOP_STRING = '</action>';

export function taskPrompt(state: GameState): string {
  return [
    welcome(state),
    '',
    'Current Board State:',
    render(state),
    '',
    `Reach the goal state where numbers are ordered 1 through ${state.size ** 2 - 1} with the empty space (0) at the bottom right.`,
    "Valid actions: 'up', 'down', 'left', 'right', or 'slide row col' (e.g., 'slide 1 2').",
    "After thinking, output your chosen action on a new line starting with '<action></action>' like this:",
    '<action>your_action</action>',
    'If you just want to see the board, output <action>view</action>',
    'Think carefully step-by-step before acting.',
    '',
  ].join('\n');
}
