import type { TurnEnvironment } from 'durable-rollouts/environment';

/** Reward 1 for a reply of at least so many words. */
const environment: TurnEnvironment = {
  stepOne({ message_log, metadata }) {
    const wanted = Number(metadata['words'] ?? 5);
    const words = message_log.at(-1)?.content.trim().split(/\s+/).length ?? 0;
    const enough = words >= wanted;
    return {
      observation: enough ? 'Enough.' : `${words} words; expected ${wanted}.`,
      reward: enough ? 1 : 0,
      terminated: true,
      answer: String(words),
    };
  },
};

export default environment;
