import { z } from 'zod';
import { recordOf } from '../../model/untrusted.js';
import { sessionOf } from '../naming.js';
import { rejectedFields } from '../rejections.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { Environment, Metadata } from '../environment.js';
import { parseStepAnswer } from '../step-answer.js';
import { ModuleCalls } from './calls.js';
import { subjectOf } from './loading.js';
import type { OptionalFunction } from './wire.js';
import { answersFrom } from './questions.js';
import { unstorable } from './wire.js';

export interface ModuleSettings {
  /** Absolute. */
  path: string;
  export: string;
  settings: Record<string, unknown>;
  /** For one call. */
  timeout: string;
}

/**
 * The user's own environment: a TypeScript or JavaScript module in its own thread. Throws an error that names file and
 * export.
 */
export async function createModuleEnvironment(
  { path, export: name, settings, timeout }: ModuleSettings,
  context: EnvironmentContext,
): Promise<Environment> {
  const start = { path, export: name, settings, name: context.name };
  const subject = subjectOf(start);
  const closing = new AbortController();
  const calls = new ModuleCalls(start, {
    timeout_ms: toMs(timeout),
    subject,
    answer: answersFrom(context, closing.signal),
  });
  const has = await calls.ready();
  return {
    step: async (input, { idempotency_key, deployment, was_asked, signal }) => {
      const asked = {
        idempotency_key,
        ...(deployment !== undefined && { deployment }),
        ...(was_asked !== undefined && { was_asked }),
      };
      const answer = await calls.call({ call: 'step', input, context: asked }, { signal });
      const batch_size = input.message_log_batch.length;
      const parsed = parseStepAnswer(answer, { subject: `${subject} answered`, batch_size });
      return {
        ...parsed,
        metadata: parsed.metadata.map((one) => asJson(one as Metadata | null, subject)),
      };
    },

    ...sessionsOf(has, { calls, subject }),

    ...(has.includes('globalPostProcessAndMetrics') && {
      globalPostProcessAndMetrics: async (rollouts, signal) =>
        (await calls.call({ call: 'globalPostProcessAndMetrics' }, { signal, rollouts })) as Record<
          string,
          number
        > | null,
    }),
    ...(has.includes('health') && {
      health: async (signal) => {
        await calls.call({ call: 'health' }, { signal });
      },
    }),

    close: async () => {
      if (closing.signal.aborted) return;
      try {
        if (has.includes('close')) await calls.call({ call: 'close' }, {});
      } finally {
        closing.abort(new Error('the environment is closed'));
        await calls.end();
      }
    },
  };
}

function sessionsOf(
  has: readonly OptionalFunction[],
  { calls, subject }: { calls: ModuleCalls; subject: string },
): Pick<Environment, 'begin' | 'end'> {
  return {
    ...(has.includes('begin') && {
      begin: async ({ message_log, metadata }, { signal, ...names }) => {
        const sample = { session: sessionOf(names), message_log, metadata };
        const answer = await calls.call({ call: 'begin', sample }, { signal });
        const parsed = FirstState.safeParse(answer);
        if (parsed.success)
          return { messages: [], metadata: asJson(parsed.data ?? metadata, subject) };
        const { error } = parsed;
        throw rejectedFields({ subject: `${subject} began with`, error, input: answer });
      },
    }),
    ...(has.includes('end') && {
      end: async (metadata, { signal, ...names }) => {
        const session = sessionOf(names);
        await calls.call({ call: 'end', metadata, session }, { signal });
        return true;
      },
    }),
  };
}

const FirstState = recordOf(z.unknown()).nullable();

/** As the journal stores it: a cycle or a BigInt would not be JSON at the next attempt either. */
function asJson<T>(value: T, subject: string): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch (error) {
    throw unstorable(subject, error);
  }
}
