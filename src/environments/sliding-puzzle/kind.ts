import { z } from 'zod';
import type {
  Environment,
  EnvironmentMessage,
  FinishedRollouts,
  Observation,
  TurnAnswer,
} from '../environment.js';
import { defineKind, inJavaScript } from '../kind.js';
import { parsedInfo } from '../rejections.js';
import { environmentSays, stepNow } from '../turn.js';
import { act, parseAction } from './actions.js';
import { GameState, render } from './board.js';
import { STOP_STRING } from './prompt.js';

export const slidingPuzzle = defineKind({
  settings: z.strictObject({
    kind: z.literal('sliding_puzzle').describe("NeMo RL's sliding puzzle"),
  }),
  answers: () => 'in process',
  roles: ['environment'],
  make: inJavaScript(createSlidingPuzzle),
});

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
    step: stepNow(({ message_log, metadata }) =>
      answerTurn(
        message_log.at(-1),
        parsedInfo(PuzzleMetadata, { name: 'sliding puzzle', info: metadata }),
      ),
    ),
    globalPostProcessAndMetrics: async (rollouts) => ({
      sliding_puzzle_success_rate: await successRate(rollouts),
    }),
  };
}

/** One turn. Only moves count against `max_moves`: looking at the board and unreadable replies are free. */
function answerTurn(last: EnvironmentMessage | undefined, metadata: PuzzleMetadata): TurnAnswer {
  const { game_state, num_moves, max_moves } = metadata;
  const goesOn = { reward: 0, terminated: false, next_stop_strings: [STOP_STRING] };
  if (num_moves >= max_moves) {
    const content = `<error>Maximum moves (${max_moves}) reached.</error>`;
    return { observation: environmentSays(content), reward: 0, terminated: true };
  }
  const action = last?.role === 'assistant' ? parseAction(last.content) : null;
  if (action === null) {
    const hint =
      'Invalid response format no move made. Try <action></action> like this: <action>your_action</action>';
    return { ...goesOn, observation: board(game_state, hint) };
  }
  if (action === 'view') {
    const observation = board(game_state, 'Viewing the board. No move made.');
    return { ...goesOn, observation, metadata };
  }
  const { response, solved, state } = act(action, game_state);
  return {
    observation: environmentSays(`<environment>\n${response}\n</environment>\n`),
    reward: solved ? 1 : 0,
    terminated: solved,
    next_stop_strings: [STOP_STRING],
    metadata: solved ? null : { ...metadata, game_state: state, num_moves: num_moves + 1 },
  };
}

const board = (state: GameState, remark: string): Observation =>
  environmentSays(`<environment>\n${render(state)}\n\n${remark}</environment>\n`);

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
