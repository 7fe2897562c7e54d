import type { Problem } from '../../model/problems.js';
import type { AgentAnswer } from '../environment.js';

/**
 * What is kept of an answer in which only the reward is no use, so that somebody can still score it; null: it has more
 * problems.
 */
export function unscoredAnswer(text: string, problems: readonly Problem[]): AgentAnswer | null {
  if (!problems.every(({ where }) => where === 'reward')) return null;
  return {
    text,
    reward: null,
    failure_class: null,
    terminal: false,
    persist: true,
    usage: null,
  };
}
