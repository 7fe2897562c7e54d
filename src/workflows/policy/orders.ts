import { condition, defineUpdate, setHandler, uuid4 } from '@temporalio/workflow';
import type { PolicyOrder, PolicyState } from '../../activities/contract/policy.js';
import { ORDERS, REPLICA_ORDERS } from '../../model/workflow-safe/policy-states.js';
import { undecodableProblem } from '../../model/workflow-safe/undecodable.js';
import { takeOrder } from '../activity-options.js';
import { failWith, failureOf, refuse } from '../ending.js';
import { recoverSignal } from '../steering/messages.js';
import type { ShownPolicy } from './policy-view.js';
import { stateOf } from './policy-view.js';

/** Its input is unread; an activity reads it. */
export type Order = Pick<PolicyOrder, 'input' | 'nonce' | 'why'> & {
  name: (typeof ORDERS)[number];
};

interface WaitingOrder {
  order: Order;
  /** The result or failure of this function answers the update. */
  answer(run: () => Promise<unknown>): Promise<void>;
}

const NAMING: ReadonlySet<string> = new Set(['begin', 'sleep']);

const CHECKED = {
  validator: (input: unknown): void => {
    refuse(undecodableProblem(input));
  },
};

/** Updates of anybody. Those that bring weights wait for their turn. */
export function handleOrders(service: string, shown: ShownPolicy) {
  const waiting: WaitingOrder[] = [];
  let isAskedToRecover = false;
  let isChanged = false;
  let answering = 0;
  for (const name of ORDERS)
    setHandler(
      unread(name),
      (input) =>
        new Promise((resolve, reject) => {
          const nonce = NAMING.has(name) ? { nonce: uuid4().slice(0, 8) } : {};
          const answer: WaitingOrder['answer'] = async (run) => {
            try {
              resolve(await run());
            } catch (error) {
              reject(failWith(failureOf(error)));
            }
          };
          waiting.push({ order: { name, input, ...nonce }, answer });
        }),
      CHECKED,
    );
  // They change the record alone, so each is answered at once, also while weights are brought.
  for (const name of REPLICA_ORDERS)
    setHandler(
      unread(name),
      async (input): Promise<PolicyState> => {
        answering += 1;
        try {
          const { view, store_id } = await takeOrder({ service, name, input });
          shown.recorded(view, store_id);
          isChanged = true;
          return stateOf(view);
        } catch (error) {
          throw failWith(failureOf(error));
        } finally {
          answering -= 1;
        }
      },
      CHECKED,
    );
  setHandler(recoverSignal, () => {
    isAskedToRecover = true;
  });
  return {
    /** Resolves when there is one, when a worker asks for recovery, when this condition holds, or after that time. */
    news: async (otherwise: () => boolean, within_ms: number | null): Promise<void> => {
      const isNews = (): boolean => waiting.length > 0 || isAskedToRecover || otherwise();
      if (within_ms === null) await condition(isNews);
      else await condition(isNews, within_ms);
      isAskedToRecover = false;
    },
    isAny: () => waiting.length > 0,
    next: () => waiting.shift() ?? null,
    /** Replicas have come or gone since the last survey. */
    isChanged: () => isChanged,
    surveyed: (): void => {
      isChanged = false;
    },
    /** No update is being answered beside the others. */
    isIdle: () => answering === 0,
  };
}

const unread = (name: string) => defineUpdate<unknown, [unknown]>(name);
