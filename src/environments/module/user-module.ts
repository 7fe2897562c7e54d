import { z } from 'zod';
import { recordOf } from '../../model/untrusted.js';
import { sessionOf } from '../naming.js';
import { rejectedFields } from '../rejections.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { Environment, Metadata } from '../environment.js';
import { parseAnswer, parseListedAnswer } from '../step-answer.js';
import { ModuleCalls } from './calls.js';
import { subjectOf } from './loading.js';
import type { FunctionName } from './wire.js';
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
    step: async (turn, { idempotency_key, deployment, was_asked, signal }) => {
      const context = {
        idempotency_key,
        ...(deployment !== undefined && { deployment }),
        ...(was_asked !== undefined && { was_asked }),
      };
      const given = await calls.call({ call: 'step', turn, context }, { signal });
      const parse = has.includes('stepOne') ? parseAnswer : parseListedAnswer;
      const answer = parse(given, { subject: `${subject} answered` });
      return { ...answer, metadata: asJson(answer.metadata as Metadata | null, subject) };
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
        if (has.includes('close')) await calls.call({ call: 'close' });
      } finally {
        closing.abort(new Error('the environment is closed'));
        await calls.end();
      }
    },
  };
}

function sessionsOf(
  has: readonly FunctionName[],
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
