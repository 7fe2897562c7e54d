import { condition, continueAsNew } from '@temporalio/workflow';
import type { PublishResult } from '../activities/contract/policy.js';
import { canRepair } from '../model/workflow-safe/policy.js';
import { settlePublish, surveyReplicas } from './activity-options.js';
import type { Serving } from './policy/bring.js';
import { bring } from './policy/bring.js';
import { checkPolicyInput } from './steering/input-checks.js';
import { restore } from './policy/restore.js';
import { watchHistory } from './long-history.js';
import type { Order } from './policy/orders.js';
import { handleOrders } from './policy/orders.js';
import { showPolicy } from './policy/policy-view.js';
import { watchHolders, watchTicket } from './policy/ticket-watch.js';
import { handleReplicaUpdates } from './policy/replica-updates.js';
import { endSleep, sleep, wake, watchSleep } from './policy/sleep.js';
import { abandon, attach, begin, endTransfer, finish, release } from './policy/transfers.js';

/**
 * What a generation service serves: weights under a version that only grows. The workflow lives as long as the service.
 * The record in the store is the truth, so a lost database or a terminated workflow costs no replica.
 */
export async function policy(input: unknown): Promise<never> {
  const { service, updates = [], heard: before } = checkPolicyInput(input);
  const heard = watchHolders(before);
  const shown = showPolicy({ service, before: updates, heard });
  const orders = handleOrders();
  const changes = handleReplicaUpdates(service, shown);
  const history = watchHistory();
  const ticket = watchTicket({ isRepairable: () => canRepair(shown.record()) });
  const asleep = watchSleep(shown);
  shown.asks(() => ticket.news(Date.now()));
  for (;;) {
    // 1. Replicas that do not serve get `version` again, until the next update. Those of a transfer are its holder's.
    const survey = await surveyReplicas({ service });
    shown.recorded(survey.view);
    ticket.sees(survey.view?.ticket ?? null);
    const serving: Serving = { service, heartbeat_ms: survey.heartbeat_timeout_ms, shown, heard };
    const restoring = restore(survey, { service, shown });
    const soon = (): number | null =>
      soonest(ticket.leftMs(Date.now()), changes.leftMs(Date.now()), asleep.leftMs(Date.now()));
    const isNews = (): boolean => history.isLong() || changes.isDue(Date.now());
    await orders.news(isNews, soon());
    // Engines come and go beside what is being loaded.
    while (changes.isDue(Date.now()) && !orders.isAny() && !history.isLong()) {
      changes.seen();
      const next = await surveyReplicas({ service });
      shown.recorded(next.view);
      restoring.follow(next);
      if (!orders.isAny()) await orders.news(isNews, soon());
    }
    const overdue = orders.isAny() ? null : ticket.overdue(Date.now());
    await restoring.stop();
    // 2. Updates, one after the other; a transfer whose holder is silent for too long ends by itself.
    const next = orders.next();
    if (next !== null) await next.answer(() => carryOut(next, serving));
    else if (overdue !== null) await endTransfer(overdue, serving);
    else if (asleep.isOver(Date.now())) await endSleep(serving);
    else if (history.isLong()) {
      await condition(() => changes.isIdle());
      await continueAsNew<typeof policy>(shown.forNextRun());
    }
  }
}

const soonest = (...times: (number | null)[]): number | null => {
  const known = times.filter((one) => one !== null);
  return known.length === 0 ? null : Math.min(...known);
};

const carryOut = ({ name, input }: Order, serving: Serving): Promise<unknown> =>
  ({ publish, begin, finish, abandon, attach, release, sleep, wake })[name](input, serving);

/**
 * Refuses the update before it touches anything. Otherwise each replica goes through its phases, and a quorum decides.
 */
async function publish(input: unknown, serving: Serving): Promise<PublishResult> {
  const { service, shown } = serving;
  const began = Date.now();
  const plan = await settlePublish({ service, publish: input, heard: serving.heard() });
  shown.recorded(plan.view);
  return await bring(plan, { ...serving, began });
}
