import { condition, continueAsNew } from '@temporalio/workflow';
import type { PolicyView } from '../model/results/answers.js';
import { takeOrder } from './activity-options.js';
import { watchHistory } from './long-history.js';
import { carryOut } from './policy/carry-out.js';
import { handleOrders } from './policy/orders.js';
import { showPolicy } from './policy/policy-view.js';
import { restore } from './policy/restore.js';
import { watchHolders, watchTimes } from './policy/watches.js';
import { checkPolicyInput } from './steering/input-checks.js';

/**
 * What a generation service serves: weights under a version that only grows. The workflow lives as long as the service.
 * The record in the store is the truth, so a lost database or a terminated workflow costs no replica. Orders change what
 * the record wants; activities bring each replica there.
 */
export async function policy(input: unknown): Promise<never> {
  const { service, updates = [], heard: before } = checkPolicyInput(input);
  const heard = watchHolders(before);
  const shown = showPolicy(service, { before: updates, heard });
  const orders = handleOrders(service, shown);
  const watches = watchTimes(shown);
  const history = watchHistory();
  const survey = async (): Promise<{ view: PolicyView; heartbeat_ms: number }> => {
    const { view, store_id, heartbeat_ms } = await takeOrder({ service, name: 'survey' });
    shown.recorded(view, store_id);
    watches.surveyed();
    return { view, heartbeat_ms: heartbeat_ms ?? FIRST_HEARTBEAT_MS };
  };
  const isChanged = (): boolean => orders.isChanged() || watches.isDrained(Date.now());
  const news = (): Promise<void> =>
    orders.news(() => history.isLong() || isChanged(), watches.leftMs(Date.now()));
  for (;;) {
    // 1. Replicas that do not serve get `version` again, until the next order. Those of a transfer are its holder's.
    const { view, heartbeat_ms } = await survey();
    const serving = { service, heartbeat_ms, shown, heard };
    const restoring = restore(view, serving);
    await news();
    // Engines come and go beside what is being loaded.
    while (isChanged() && !orders.isAny() && !history.isLong()) {
      orders.surveyed();
      restoring.follow((await survey()).view);
      if (!orders.isAny()) await news();
    }
    const due = orders.isAny() ? null : watches.due(Date.now());
    await restoring.stop();
    // 2. Orders, one after the other; the workflow's own end what its holder does not end in time.
    const next = orders.next();
    if (next !== null) await next.answer(() => carryOut(next.order, serving));
    else if (due !== null) await carryOut(due, serving);
    else if (history.isLong()) {
      await condition(() => orders.isIdle());
      await continueAsNew<typeof policy>(shown.forNextRun());
    }
  }
}

const FIRST_HEARTBEAT_MS = 10_000;
