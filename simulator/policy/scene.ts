import { currentBoard, type Board } from './board.js';
import { scriptedAnswer, type ScriptedAnswer } from './script.js';
import { nextStep, type ToolStep } from './tool-use.js';
import { END_OF_TEXT, IM_END, IM_START, isSpecial, PICTURE } from './tokenizer.js';

/** What the policy understands of a prompt. */
export interface Scene {
  /** The sliding puzzle's board after all moves so far; null if the prompt has none. */
  board: Board | null;
  /** The answer that the prompt itself prescribes; null if it prescribes none. */
  script: ScriptedAnswer | null;
  /** The next step with tools; null if the prompt prescribes none. */
  tools: ToolStep | null;
  /** What the assistant has already said in this answer: a resumed request ends with it. */
  said: readonly number[];
}

/** Special tokens as bytes that never occur in UTF-8, so that an index in the text is an index in the prompt. */
const MARKS = new Map([
  [IM_START, 0xff],
  [IM_END, 0xfe],
  [END_OF_TEXT, 0xfd],
  [PICTURE, 0xfc],
]);
/**
 * The assistant's turn begins after one of these; with a chat template an answer may follow an observation directly.
 */
const TURN_BEGINS = [
  '\xffassistant\n',
  '\xfe',
  '\xfe\n',
  '\xfd',
  '</environment>\n',
  '</error>',
  'Think carefully step-by-step before acting.\n',
];

export function readScene(prompt: readonly number[]): Scene {
  const text = Buffer.from(
    prompt.map((id) => (isSpecial(id) ? (MARKS.get(id) ?? 0xfd) : id)),
  ).toString('latin1');
  const begin = Math.max(...TURN_BEGINS.map((mark) => endOf(text, mark)));
  return {
    board: currentBoard(text),
    script: scriptedAnswer(text),
    tools: nextStep(text),
    said: begin === -1 ? [] : prompt.slice(begin),
  };
}

function endOf(text: string, mark: string): number {
  const at = text.lastIndexOf(mark);
  return at === -1 ? -1 : at + mark.length;
}
