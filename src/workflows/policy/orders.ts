import type { defineUpdate } from '@temporalio/workflow';
import { condition, setHandler } from '@temporalio/workflow';
import { undecodableProblem } from '../../model/workflow-safe/undecodable.js';
import { failWith, failureOf, refuse } from '../ending.js';
import {
  abandonUpdate,
  attachUpdate,
  beginUpdate,
  finishUpdate,
  publishUpdate,
  recoverSignal,
  releaseUpdate,
  sleepUpdate,
  wakeUpdate,
} from '../steering/messages.js';

/** Updates of a policy that change replicas, in their order of arrival. */
export interface Orders {
  /** Resolves when there is one, when a worker asks for recovery, when this condition holds, or after that time. */
  news(otherwise: () => boolean, within_ms: number | null): Promise<void>;
  isAny(): boolean;
  next(): Order | null;
}

const UPDATES = {
  publish: publishUpdate,
  begin: beginUpdate,
  finish: finishUpdate,
  abandon: abandonUpdate,
  attach: attachUpdate,
  release: releaseUpdate,
  sleep: sleepUpdate,
  wake: wakeUpdate,
} as const;

export type OrderName = keyof typeof UPDATES;

export interface Order {
  name: OrderName;
  /** Unread; an activity reads it. */
  input: unknown;
  /** The result or failure of this function answers the update. */
  answer(run: () => Promise<unknown>): Promise<void>;
}

export function handleOrders(): Orders {
  const waiting: Order[] = [];
  let isAskedToRecover = false;
  for (const [name, update] of Object.entries(UPDATES)) {
    setHandler(
      update as ReturnType<typeof defineUpdate<unknown, [unknown]>>,
      (input) =>
        new Promise((resolve, reject) => {
          const answer: Order['answer'] = async (run) => {
            try {
              resolve(await run());
            } catch (error) {
              reject(failWith(failureOf(error)));
            }
          };
          waiting.push({ name: name as OrderName, input, answer });
        }),
      {
        validator: (input) => {
          refuse(undecodableProblem(input));
        },
      },
    );
  }
  setHandler(recoverSignal, () => {
    isAskedToRecover = true;
  });
  return {
    news: async (otherwise, within_ms) => {
      const isNews = (): boolean => waiting.length > 0 || isAskedToRecover || otherwise();
      if (within_ms === null) await condition(isNews);
      else await condition(isNews, within_ms);
      isAskedToRecover = false;
    },
    isAny: () => waiting.length > 0,
    next: () => waiting.shift() ?? null,
  };
}
