import { plainOf } from '../../platform/json/kept.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { Environment } from '../environment.js';
import { environmentOver } from '../http/environment.js';
import { ModuleCalls } from './calls.js';
import { subjectOf } from './loading.js';
import { answersFrom } from './module-process.js';

export interface ModuleSettings {
  /** Absolute. */
  path: string;
  export: string;
  settings: Record<string, unknown>;
  /** For one call. */
  timeout: string;
}

/**
 * The user's own environment: a TypeScript or JavaScript module in its own process. Throws an error that names file and
 * export.
 */
export async function createModuleEnvironment(
  { path, export: name, settings, timeout }: ModuleSettings,
  context: EnvironmentContext,
): Promise<Environment> {
  const start = { path, export: name, settings, name: context.name };
  const subject = subjectOf(start);
  const closing = new AbortController();
  const timeout_ms = toMs(timeout);
  const calls = new ModuleCalls(start, {
    timeout_ms,
    subject,
    answer: answersFrom(context, closing.signal),
    answers: context.answers,
  });
  const has = await calls.ready();
  const close = async (): Promise<void> => {
    if (closing.signal.aborted) return;
    const { signal } = new AbortController();
    try {
      if (has.includes('close')) await calls.send({ method: 'POST', path: '/close', signal });
    } finally {
      closing.abort(new Error('the environment is closed'));
      await calls.end();
    }
  };
  const served = environmentOver({ at: subject, call: calls.send, timeout_ms, close });
  return {
    step: async (turn, given) => {
      const answer = await served.step(turn, given);
      return { ...answer, metadata: answer.metadata ? plainOf(answer.metadata) : null };
    },
    ...(has.includes('begin') && {
      begin: async (sample, given) => {
        const begun = await served.begin(sample, given);
        return begun && { ...begun, metadata: plainOf(begun.metadata) };
      },
    }),
    ...(has.includes('end') && { end: served.end }),
    ...(has.includes('globalPostProcessAndMetrics') && {
      globalPostProcessAndMetrics: served.globalPostProcessAndMetrics,
    }),
    ...(has.includes('health') && { health: served.health }),
    close,
  };
}
