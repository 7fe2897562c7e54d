import { condition, setHandler } from '@temporalio/workflow';
import type { PublishResult } from '../../activities/contract/policy.js';
import { failWith, failureOf } from '../ending.js';
import { undecodableProblem } from '../../model/workflow-safe/undecodable.js';
import { publishUpdate, recoverSignal } from '../steering/messages.js';
import { refuse } from '../steering/rollout-limits.js';

/** Updates `publish`, in their order of arrival. */
export interface Publishes {
  /** Resolves when there is one, when a worker asks for recovery, or when this condition holds. */
  news(otherwise: () => boolean): Promise<void>;
  next(): Publishing | null;
}

export interface Publishing {
  /** Unread; an activity reads it. */
  input: unknown;
  /** The result or failure of this function answers the update. */
  answer(run: () => Promise<PublishResult>): Promise<void>;
}

export function handlePublishUpdates(): Publishes {
  const waiting: Publishing[] = [];
  let isAskedToRecover = false;
  setHandler(
    publishUpdate,
    (input) =>
      new Promise((resolve, reject) => {
        const answer = async (run: () => Promise<PublishResult>): Promise<void> => {
          try {
            resolve(await run());
          } catch (error) {
            reject(failWith(failureOf(error)));
          }
        };
        waiting.push({ input, answer });
      }),
    {
      validator: (input) => {
        refuse(undecodableProblem(input));
      },
    },
  );
  setHandler(recoverSignal, () => {
    isAskedToRecover = true;
  });
  return {
    news: async (otherwise) => {
      await condition(() => waiting.length > 0 || isAskedToRecover || otherwise());
      isAskedToRecover = false;
    },
    next: () => waiting.shift() ?? null,
  };
}
