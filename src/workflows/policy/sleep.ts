import { uuid4 } from '@temporalio/workflow';
import type { PolicyState, SleepAnswer } from '../../activities/contract/policy.js';
import type { PolicyView } from '../../model/workflow-safe/policy.js';
import { isKept, textOfFaults } from '../../model/workflow-safe/policy.js';
import { restoreReplica, transferActivity } from '../activity-options.js';
import { failWith, failureOf } from '../ending.js';
import type { Serving } from './bring.js';
import { stateOf } from './bring.js';
import type { ShownPolicy } from './policy-view.js';
import { repaired } from './transfers.js';

/** Engines leave their memory to a trainer on the same GPUs, until it or the time wakes them. */

export async function sleep(
  input: unknown,
  { service, heartbeat_ms, shown, heard }: Serving,
): Promise<SleepAnswer> {
  const nonce = uuid4().slice(0, 8);
  const sleeping = transferActivity('sleepEngines', heartbeat_ms);
  const view = await sleeping({ service, nonce, sleep: input, heard: heard() });
  shown.recorded(view);
  const { level, until } = view.sleep ?? { level: 1, until: Date.now() };
  return { ...stateOf(view), level, until };
}

export async function wake(input: unknown, serving: Serving): Promise<PolicyState> {
  const { service, heartbeat_ms } = serving;
  const left = await transferActivity('wakeEngines', heartbeat_ms)({ service, wake: input });
  if (left.repair !== null) return await repaired(left, serving);
  serving.shown.recorded(left.view);
  return await woken(left.view, serving);
}

const WHY = 'its holder has not woken it in time';

/** Nobody waits for the answer: replicas are restored. */
export async function endSleep({ service, heartbeat_ms, shown }: Serving): Promise<void> {
  const nonce = shown.record()?.sleep?.nonce;
  if (nonce === undefined) return;
  const left = await transferActivity('wakeEngines', heartbeat_ms)({ service, nonce, why: WHY });
  shown.recorded(left.view);
}

/** Those that cannot be woken now are tried again, as any replica. */
async function woken(
  view: PolicyView,
  { service, heartbeat_ms, shown }: Serving,
): Promise<PolicyState> {
  const faults: Record<string, string> = {};
  const due = Object.entries(view.replicas).filter(
    ([url, { state, slept }]) => slept !== undefined && state !== 'asleep' && !isKept(view, url),
  );
  await Promise.all(
    due.map(async ([replica]) => {
      try {
        const restored = await restoreReplica({ service, replica }, heartbeat_ms);
        shown.recorded(restored.view);
      } catch (error) {
        faults[replica] = failureOf(error).message;
        shown.failed(replica, faults[replica]);
      }
    }),
  );
  const failed = Object.keys(faults).length;
  if (failed > 0 && failed === due.length)
    throw failWith({
      type: 'PolicyUpdateFailed',
      message: `no engine could be woken, each is tried again: ${textOfFaults(faults)}`,
    });
  return stateOf(shown.record() ?? view, faults);
}

/** Activities have another clock. */
const MARGIN_MS = 1000;

/** When the engines are woken by themselves. */
export function watchSleep(shown: Pick<ShownPolicy, 'record'>) {
  const until = (): number | null => {
    const sleeping = shown.record()?.sleep ?? null;
    return sleeping === null ? null : sleeping.until + MARGIN_MS;
  };
  return {
    leftMs: (now: number): number | null => {
      const at = until();
      return at === null ? null : Math.max(0, at - now);
    },
    isOver: (now: number): boolean => now >= (until() ?? Infinity),
  };
}
