import type { Environment, Observation, StepContext, Turn, TurnAnswer } from './environment.js';

/** The step of an environment that answers without waiting. */
export const stepNow =
  (answer: (turn: Turn, context: StepContext) => TurnAnswer): Environment['step'] =>
  (turn, context) =>
    // A throw inside the promise rejects it, as the interface requires.
    new Promise((resolve) => {
      resolve(answer(turn, context));
    });

export const environmentSays = (content: string): Observation => ({ role: 'environment', content });

/**
 * What a grader reads. `standard`: what the policy said in this rollout, each message on lines of its own. Upstream's
 * rule: all assistant messages, those of the prompt included, without a separator.
 */
export function saidIn(
  { message_log }: Pick<Turn, 'message_log'>,
  { prompt_length }: Pick<StepContext, 'prompt_length'>,
): string {
  return message_log
    .slice(prompt_length ?? 0)
    .filter(({ role }) => role === 'assistant')
    .map(({ content }) => content)
    .join(prompt_length === undefined ? '' : '\n');
}
