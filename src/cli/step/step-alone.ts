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
  /** Grades as under `standard`, where the last message is what the policy said; absent: as NeMo RL does. */
  is_standard?: boolean;
}

/** One step of one log. If the environment has sessions, the step gets its own: begun with the log's prompt, and ended. */
export async function stepAlone(
  environment: ExactEnvironment,
  { log, metadata, ...context }: Alone,
): Promise<TurnAnswer<ForeignObject>> {
  if (environment.begin === undefined) return stepLog(environment, { log, metadata, ...context });
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
    const answer = await stepLog(environment, {
      log: whole,
      metadata: begun.metadata,
      ...context,
    });
    return { ...answer, metadata: answer.metadata ? withoutSession(answer.metadata) : null };
  } finally {
    // A failed end leaves a session on the server, but the answer is good.
    await environment.end?.(begun.metadata, keyed('end')).catch(() => false);
  }
}

function stepLog(
  environment: ExactEnvironment,
  { log, metadata, is_standard = false, ...context }: Alone,
): Promise<TurnAnswer<ForeignObject>> {
  const turn = { message_log: log, metadata };
  return environment.step(turn, {
    ...context,
    ...(is_standard && { prompt_length: Math.max(0, log.length - 1) }),
  });
}
