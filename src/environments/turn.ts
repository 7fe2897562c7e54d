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

export interface Said {
  /** The text in which a grader looks for an answer. */
  response: string;
  /** The same with thoughts: graders of a format read it. */
  whole: string;
}

/**
 * `standard`: what the policy said in this rollout, each message on lines of its own; what it only thought is no answer.
 * Upstream's rule: all assistant messages, those of the prompt included, without a separator.
 */
export function saidIn(
  { message_log }: Pick<Turn, 'message_log'>,
  { prompt_length }: Pick<StepContext, 'prompt_length'>,
): Said {
  const texts = message_log
    .slice(prompt_length ?? 0)
    .filter(({ role }) => role === 'assistant')
    .map(({ content }) => content);
  if (prompt_length === undefined) return { response: texts.join(''), whole: texts.join('') };
  const answers = texts.map(withoutThoughts).filter((text) => text !== '');
  return { response: answers.join('\n'), whole: texts.join('\n') };
}

const TAG = /<\/?think>/g;

/** Without thoughts: one that does not end goes on to the end, one that the prompt opened begins with the message. */
export function withoutThoughts(text: string): string {
  let said: string[] = [];
  let from = 0;
  let is_thought = false;
  for (const { 0: tag, index } of text.matchAll(TAG)) {
    if (tag === '<think>' && !is_thought) said.push(text.slice(from, index));
    if (tag === '</think>' && !is_thought) said = [];
    is_thought = tag === '<think>';
    from = index + tag.length;
  }
  if (!is_thought) said.push(text.slice(from));
  return said.filter((part) => part.trim() !== '').join('\n');
}
