import type { EnvironmentContext } from '../environment-context.js';
import type { FinishedRollout } from '../environment.js';
import type { FromThread, Outcome, Question, ToThread } from './wire.js';
import { wireError } from './wire.js';

/** What a module's thread asks its worker for: the context of an environment, and rollouts that are read one by one. */
export type Answer = (question: Exclude<Question, { about: 'next_rollout' }>) => unknown;

export function answersFrom(context: EnvironmentContext, signal: AbortSignal): Answer {
  return async (question) => {
    switch (question.about) {
      case 'env':
        return context.env(question.variable);
      case 'report':
        context.report(question.message);
        return null;
      case 'retriever':
        return (await context.retriever(question.name)).document_count;
      case 'search':
        return (await context.retriever(question.name)).search(question.query, question.options);
      case 'compare':
        return await context.grader.compare(question.pair, signal);
      case 'grader_health':
        await context.grader.health(signal);
        return null;
    }
  };
}

type ThreadQuestion = Extract<FromThread, { kind: 'ask' | 'ask_now' }>;

interface Answering {
  answer: Answer;
  next: (call: number) => Promise<FinishedRollout | null>;
  reply: (message: ToThread) => void;
}

export async function answerOn(
  asked: ThreadQuestion,
  { answer, next, reply }: Answering,
): Promise<void> {
  const { question } = asked;
  const given = async (): Promise<unknown> =>
    question.about === 'next_rollout' ? await next(question.call) : await answer(question);
  const outcome = await given().then(
    (value): Outcome => ({ value }),
    (error: unknown): Outcome => ({ error: wireError(error) }),
  );
  if (asked.kind === 'ask') {
    reply({ kind: 'answered', ask: asked.ask, answer: outcome });
    return;
  }
  asked.port.postMessage(outcome);
  const flag = new Int32Array(asked.flag);
  Atomics.store(flag, 0, 1);
  Atomics.notify(flag, 0);
}
