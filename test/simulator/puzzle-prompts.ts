import { renderChat } from '../../simulator/policy/chat-template.js';
import { encode } from '../../simulator/policy/tokenizer.js';

/** Texts of the sliding puzzle as upstream's environment writes them. */

export const BOARD_2X2_ONE_LEFT = '\n\n  +------+\n1 | 1  2 |\n2 |    3 |\n  +------+\n     1  2 ';
export const BOARD_2X2 = '\n\n  +------+\n1 |    2 |\n2 | 1  3 |\n  +------+\n     1  2 ';
/** In the middle: every direction is legal, two of them lead towards the solved board. */
export const BOARD_3X3 =
  '\n\n  +---------+\n1 | 1  2  3 |\n2 | 4     6 |\n3 | 7  5  8 |\n  +---------+\n     1  2  3 ';
export const BOARD_3X3_CORNER =
  '\n\n  +---------+\n1 | 1  2  3 |\n2 | 4  5    |\n3 | 7  8  6 |\n  +---------+\n     1  2  3 ';
export const BOARD_5X5 =
  '\n\n  +--------------------+\n1 |  1   2   3   4   5 |\n2 |  6   7   8   9  10 |\n3 | 11  12  13  14  15 |\n4 | 16  17  18  24  19 |\n5 | 21  22  23      20 |\n  +--------------------+\n     1   2   3   4   5  ';

export function taskText(board: string): string {
  return [
    '',
    '===== SLIDING PUZZLE =====',
    'Arrange the grid by sliding tiles into the empty space.',
    "- Use 'view' to see the current state of the board",
    '',
    'Current Board State:',
    board,
    '',
    'After thinking, output your chosen action on a new line starting with ' +
      "'<action></action>' like this:",
    '<action>your_action</action>',
    'If you just want to see the board, output <action>view</action>',
    'Think carefully step-by-step before acting.',
    '',
  ].join('\n');
}

export function taskPrompt(board: string): number[] {
  const messages = [{ role: 'user', content: taskText(board) }];
  return encode(renderChat(messages, { add_generation_prompt: true }));
}

export function observation(response: string): string {
  return `<environment>\n${response}\n</environment>\n`;
}

export function viewed(board: string): string {
  return `<environment>\n${board}\n\nViewing the board. No move made.</environment>\n`;
}
