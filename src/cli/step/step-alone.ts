import type { ForeignObject } from '../../model/foreign-object.js';
import type {
  ExactEnvironment,
  EnvironmentMessage,
  StepContext,
  TurnAnswer,
} from '../../environments/environment.js';
import { withoutSession } from '../../model/journal/session.js';

interface Alone extends Pick<StepContext, 'idempotency_key' | 'signal'> {
  log: EnvironmentMessage[];
  metadata: ForeignObject;
  /** Grades as under `standard`, what the policy said behind so many messages; absent: as NeMo RL does. */
  prompt_length?: number;
}

/** One step of one log. If the environment has sessions, the step gets its own: begun with the log's prompt, and ended. */
export async function stepAlone(
  environment: ExactEnvironment,
  { log, metadata, prompt_length, ...context }: Alone,
): Promise<TurnAnswer<ForeignObject>> {
  const inStep = (begun: number): StepContext => ({
    ...context,
    ...(prompt_length !== undefined && { prompt_length: prompt_length + begun }),
  });
  if (environment.begin === undefined)
    return environment.step({ message_log: log, metadata }, inStep(0));
  const answered = log.findIndex(({ role }) => role === 'assistant');
  const prompt = answered === -1 ? log : log.slice(0, answered);
  const keyed = (what: string) => ({
    ...context,
    idempotency_key: `${context.idempotency_key}/${what}-0`,
  });
  const begun = (await environment.begin({ message_log: prompt, metadata }, keyed('begin'))) ?? {
    messages: [],
    metadata,
  };
  try {
    const whole = [...prompt, ...begun.messages, ...log.slice(prompt.length)];
    const answer = await environment.step(
      { message_log: whole, metadata: begun.metadata },
      inStep(begun.messages.length),
    );
    return { ...answer, metadata: answer.metadata ? withoutSession(answer.metadata) : null };
  } finally {
    // A failed end leaves a session on the server, but the answer is good.
    await environment.end?.(begun.metadata, keyed('end')).catch(() => false);
  }
}
