import { EventEmitter } from 'node:events';
import type { Info } from '@temporalio/activity';
import { Context, asyncLocalStorage } from '@temporalio/activity';
import type { Logger } from '@temporalio/common';
import { CancelledFailure, noopMetricMeter } from '@temporalio/common';

/**
 * An attempt of an activity outside a worker, like `MockActivityEnvironment` of `@temporalio/testing`. That one loads a
 * worker, which takes most of the start of a process that runs activities.
 */
export class ActivityContext extends EventEmitter<{ heartbeat: [details: unknown] }> {
  readonly cancel: (reason: string) => void;
  readonly #context: Context;

  constructor(info: Partial<Info>, { warn }: { warn: (message: string) => void }) {
    super();
    const abort = new AbortController();
    const { promise, reject } = withReject();
    this.cancel = (reason) => {
      const failure = new CancelledFailure(reason);
      abort.abort(failure);
      reject(failure);
    };
    const heartbeat = (details: unknown) => this.emit('heartbeat', details);
    const log = loggerOf(warn);
    this.#context = new Context(
      { ...INFO, ...info } as Info,
      promise,
      abort.signal,
      heartbeat,
      undefined,
      log,
      noopMetricMeter,
      {},
    );
  }

  run<Args extends unknown[], Result>(
    body: (...args: Args) => Promise<Result>,
    ...args: Args
  ): Promise<Result> {
    return asyncLocalStorage.run(this.#context, () => body(...args));
  }
}

function withReject(): { promise: Promise<never>; reject: (reason: Error) => void } {
  let reject: (reason: Error) => void = () => undefined;
  const promise = new Promise<never>((_, rejects) => (reject = rejects));
  // Not every activity listens.
  promise.catch(() => undefined);
  return { promise, reject };
}

function loggerOf(warn: (message: string) => void): Logger {
  const silent = (): void => undefined;
  return {
    log: (level, message) => {
      if (level === 'WARN') warn(message);
    },
    trace: silent,
    debug: silent,
    info: silent,
    warn,
    error: silent,
  };
}

const INFO = {
  attempt: 1,
  taskQueue: 'test',
  isLocal: false,
  taskToken: Buffer.from('test'),
  activityId: 'test',
  activityType: 'unknown',
  workflowType: 'test',
  base64TaskToken: Buffer.from('test').toString('base64'),
  heartbeatDetails: undefined,
  workflowExecution: { workflowId: 'test', runId: '00000000-0000-0000-0000-000000000000' },
  scheduledTimestampMs: 1,
  startToCloseTimeoutMs: 1000,
  scheduleToCloseTimeoutMs: 1000,
  currentAttemptScheduledTimestampMs: 1,
  namespace: 'test',
  inWorkflow: true,
} satisfies Partial<Info>;
