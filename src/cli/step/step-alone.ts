import type { ForeignObject } from '../../model/foreign-object.js';
import type { ExactEnvironment, EnvironmentMessage, EnvironmentReturn, StepContext } from '../../environments/environment.js'; // prettier-ignore
import { withoutSession } from '../../model/journal/session.js';

/**
 * One step of one log. If the environment has sessions, the step gets its own: begun with the log's prompt, and ended.
 */
export async function stepAlone(
  environment: ExactEnvironment,
  {
    log,
    metadata,
    ...context
  }: { log: EnvironmentMessage[]; metadata: ForeignObject } & Pick<
    StepContext,
    'idempotency_key' | 'signal'
  >,
): Promise<EnvironmentReturn<ForeignObject>> {
  if (environment.begin === undefined)
    return environment.step({ message_log_batch: [log], metadata: [metadata] }, context);
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
    const input = { message_log_batch: [whole], metadata: [begun.metadata] };
    const answer = await environment.step(input, context);
    return { ...answer, metadata: answer.metadata.map((state) => state && withoutSession(state)) };
  } finally {
    // A failed end leaves a session on the server, but the answer is good.
    await environment.end?.(begun.metadata, keyed('end')).catch(() => false);
  }
}
