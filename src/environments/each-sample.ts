import type {
  Environment,
  EnvironmentMessage,
  EnvironmentReturn,
  Metadata,
  StepContext,
  StepInput,
} from './environment.js';
import { rejected } from './rejections.js';

/** One sample of a step. */
export interface Turn<M = Metadata> {
  log: EnvironmentMessage[];
  metadata: M;
  /** Its place in the step's batch, used in messages. */
  index: number;
  /** How many messages of the log are the prompt's; null: upstream's rules hold. */
  prompt_length: number | null;
}

/** An environment's answer to one sample. */
export interface TurnAnswer {
  content: string;
  reward: number;
  terminated: boolean;
  /** null keeps the previous metadata. */
  metadata: Metadata | null;
  stop_strings: string[] | null;
  answer: string | null;
}

/** The step of an environment that answers each sample by itself and without waiting. */
export function stepEach(
  subject: string,
  answerTurn: (turn: Turn) => TurnAnswer,
): Environment['step'] {
  return (input, { standard }) =>
    // A throw inside the promise rejects it, as the interface requires.
    new Promise((resolve) => {
      const turns = turnsOf(subject, { ...input, standard });
      resolve(returnOf(turns.map(answerTurn)));
    });
}

/** Metadata and logs, sample by sample; throws if their numbers differ. */
export function turnsOf<M = Metadata>(
  subject: string,
  { message_log_batch, metadata, standard }: StepInput<M> & Pick<StepContext, 'standard'>,
): Turn<M>[] {
  if (message_log_batch.length !== metadata.length) {
    const what = `expected ${message_log_batch.length}, one per message log, got ${metadata.length}`;
    throw rejected({ subject, problems: [{ where: 'metadata', what }] });
  }
  return metadata.map((info, index) => ({
    log: message_log_batch[index] ?? [],
    metadata: info,
    index,
    prompt_length: standard?.prompt_lengths[index] ?? null,
  }));
}

export function returnOf(answers: readonly TurnAnswer[]): EnvironmentReturn {
  return {
    observations: answers.map(({ content }) => ({ role: 'environment', content })),
    metadata: answers.map(({ metadata }) => metadata),
    next_stop_strings: answers.map(({ stop_strings }) => stop_strings),
    rewards: answers.map(({ reward }) => reward),
    terminateds: answers.map(({ terminated }) => terminated),
    answers: answers.map(({ answer }) => answer),
  };
}

/**
 * What a grader reads. `standard`: what the policy said in this rollout, each message on lines of its own. Upstream's
 * rule: all assistant messages, those of the prompt included, without a separator.
 */
export function saidIn({ log, prompt_length }: Pick<Turn, 'log' | 'prompt_length'>): string {
  return log
    .slice(prompt_length ?? 0)
    .filter(({ role }) => role === 'assistant')
    .map(({ content }) => content)
    .join(prompt_length === null ? '' : '\n');
}
