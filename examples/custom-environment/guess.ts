import type { TurnEnvironment } from 'durable-rollouts/environment';

/** Guess a number between 1 and 100: several turns, the state in `metadata`, a reward for the last turn alone. */
const environment: TurnEnvironment = {
  stepOne({ message_log, metadata }) {
    const { number, tries_left } = metadata as { number: number; tries_left: number };
    const guess = Number(/-?\d+/.exec(message_log.at(-1)?.content ?? '')?.[0] ?? NaN);
    const left = tries_left - 1;
    const isRight = guess === number;
    const hint = Number.isNaN(guess) ? 'Say a number.' : guess < number ? 'Higher.' : 'Lower.';
    return {
      observation: isRight ? 'Right.' : left > 0 ? `${hint} ${left} tries left.` : 'No more tries.',
      reward: isRight ? 1 : 0,
      terminated: isRight || left <= 0,
      metadata: { number, tries_left: left },
    };
  },
};

export default environment;
