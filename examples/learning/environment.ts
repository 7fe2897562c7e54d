import type { TurnEnvironment } from 'durable-rollouts/environment';

/** A sample's words and answers, and the current turn. */
interface State extends Record<string, unknown> {
  turn: number;
  words: string[];
  answers: string[];
}

/** Rewards each letter in its right place, says how many were right, and shows the next word. */
const environment: TurnEnvironment = {
  stepOne({ message_log, metadata }) {
    const state = metadata as State;
    const { turn, words, answers } = state;
    const expected = answers[turn] ?? '';
    const given = message_log.at(-1)?.content ?? '';
    const right = Array.from(expected).filter((letter, place) => letter === given[place]).length;
    const reward = right / Math.max(given.length, expected.length) / answers.length;
    const next = words[turn + 1];
    return {
      observation: next === undefined ? '' : `\n${right} ${next}=`,
      reward,
      terminated: next === undefined,
      metadata: { ...state, turn: turn + 1 },
      answer: given,
    };
  },
};

export default environment;
