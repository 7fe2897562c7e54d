import assert from 'node:assert/strict';
import type {
  Environment,
  EnvironmentMessage,
  ExactEnvironment,
  FinishedRollout,
  Metadata,
  TurnAnswer,
} from '../../src/environments/environment.js';
import { faultOf } from '../harness/fault-of.js';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import { plainOf } from '../../src/platform/json/kept.js';

export const CONTEXT = {
  idempotency_key: 'batch/0-0/0',
  signal: new AbortController().signal,
};

export const said = (content: string): EnvironmentMessage => ({ role: 'assistant', content });

/** One step for one sample. */
export function stepOne<E extends Environment | ExactEnvironment>(
  environment: E,
  { log, metadata = {} }: { log: EnvironmentMessage[]; metadata?: Metadata },
): ReturnType<E['step']> {
  return environment.step({ message_log: log, metadata }, CONTEXT) as ReturnType<E['step']>;
}

/** A step of each sample, as upstream's lists. */
export async function stepEach(
  environment: Environment | ExactEnvironment,
  { logs, metadata }: { logs: EnvironmentMessage[][]; metadata: Metadata[] },
) {
  const steps = logs.map((log, i) => stepOne(environment, { log, metadata: metadata[i] ?? {} }));
  const answers = await Promise.all<TurnAnswer<ForeignObject>>(steps);
  return {
    observations: answers.map(({ observation }) => observation),
    metadata: answers.map((answer) => plainOf(answer.metadata) ?? null),
    next_stop_strings: answers.map((answer) => answer.next_stop_strings ?? null),
    rewards: answers.map(({ reward }) => reward),
    terminateds: answers.map(({ terminated }) => terminated),
    answers: answers.map(({ answer }) => answer ?? null),
  };
}

/** The message of the rejection that a promise ends with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<string> {
  const { type, retryable, message } = await faultOf(promise);
  assert.deepEqual([type, retryable], ['EnvironmentRejected', false]);
  return message;
}

/** Metrics over rollouts with these rewards, read one by one. */
export async function metricsOf(
  environment: Environment,
  rewards: readonly number[],
): Promise<Record<string, number> | null> {
  assert.ok(environment.globalPostProcessAndMetrics !== undefined, 'it has no metrics');
  // eslint-disable-next-line @typescript-eslint/require-await -- as rows of a file come
  async function* rollouts(): AsyncGenerator<FinishedRollout> {
    for (const total_reward of rewards)
      yield { message_log: [], total_reward, rewards: {}, extra_env_info: {} };
  }
  return environment.globalPostProcessAndMetrics(rollouts(), CONTEXT.signal);
}
