import { z } from 'zod';
import { turnsOf } from '../each-sample.js';
import type {
  Environment,
  EnvironmentMessage,
  EnvironmentReturn,
  FinishedRollouts,
  Metadata,
  StepInput,
} from '../environment.js';
import { rejectedFields } from '../rejections.js';
import { act, parseAction } from './actions.js';
import { GameState, render } from './board.js';
import { STOP_STRING } from './prompt.js';

/** A rollout's `extra_env_info`, upstream's keys. Unknown ones are kept. */
const PuzzleMetadata = z.looseObject({
  game_state: GameState,
  num_moves: z.int().nonnegative(),
  max_moves: z.int().nonnegative(),
});
type PuzzleMetadata = z.infer<typeof PuzzleMetadata>;

/** Upstream's sliding puzzle: reward 1 for the slide that solves it, 0 for all else. */
export function createSlidingPuzzle(): Environment {
  return {
    step: (input) =>
      // A throw inside the promise rejects it, as the interface requires.
      new Promise((resolve) => {
        resolve(stepBatch(input));
      }),
    globalPostProcessAndMetrics: async (rollouts) => ({
      sliding_puzzle_success_rate: await successRate(rollouts),
    }),
  };
}

function stepBatch(input: StepInput): EnvironmentReturn {
  const answers = turnsOf('sliding puzzle', input).map(({ log, metadata, index }) =>
    answerTurn(log.at(-1), parseMetadata(metadata, index)),
  );
  return {
    observations: answers.map(({ content }) => ({ role: 'environment', content })),
    metadata: answers.map((answer) => answer.metadata),
    next_stop_strings: answers.map((answer) => answer.stop_strings),
    rewards: answers.map((answer) => answer.reward),
    terminateds: answers.map((answer) => answer.terminated),
  };
}

function parseMetadata(info: Metadata, index: number): PuzzleMetadata {
  const parsed = PuzzleMetadata.safeParse(info);
  if (parsed.success) return parsed.data;
  const subject = `sliding puzzle: extra_env_info of sample ${index} of the step`;
  throw rejectedFields({ subject, error: parsed.error, input: info });
}

interface Answer {
  content: string;
  reward: number;
  terminated: boolean;
  stop_strings: string[] | null;
  /** null keeps the previous metadata. */
  metadata: PuzzleMetadata | null;
}

/** One turn. Only moves count against `max_moves`: looking at the board and unreadable replies are free. */
function answerTurn(last: EnvironmentMessage | undefined, metadata: PuzzleMetadata): Answer {
  const { game_state, num_moves, max_moves } = metadata;
  const goesOn = { reward: 0, terminated: false, stop_strings: [STOP_STRING] };
  if (num_moves >= max_moves) {
    const content = `<error>Maximum moves (${max_moves}) reached.</error>`;
    return { content, reward: 0, terminated: true, stop_strings: null, metadata: null };
  }
  const action = last?.role === 'assistant' ? parseAction(last.content) : null;
  if (action === null) {
    const hint =
      'Invalid response format no move made. Try <action></action> like this: <action>your_action</action>';
    return { ...goesOn, content: board(game_state, hint), metadata: null };
  }
  if (action === 'view') {
    return { ...goesOn, content: board(game_state, 'Viewing the board. No move made.'), metadata };
  }
  const { response, solved, state } = act(action, game_state);
  return {
    content: `<environment>\n${response}\n</environment>\n`,
    reward: solved ? 1 : 0,
    terminated: solved,
    stop_strings: [STOP_STRING],
    metadata: solved ? null : { ...metadata, game_state: state, num_moves: num_moves + 1 },
  };
}

function board(state: GameState, remark: string): string {
  return `<environment>\n${render(state)}\n\n${remark}</environment>\n`;
}

/** A float32 mean, as upstream's; 0 without rollouts. */
async function successRate(rollouts: FinishedRollouts): Promise<number> {
  let played = 0;
  let solved = 0;
  for await (const { total_reward } of rollouts) {
    played += 1;
    if (total_reward === 1) solved += 1;
  }
  return played === 0 ? 0 : Math.fround(solved / played);
}
