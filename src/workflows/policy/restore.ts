import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import type { PolicyView } from '../../model/results/answers.js';
import { restoreDelayMs, toRestore } from '../../model/workflow-safe/policy.js';
import { restoreReplica } from '../activity-options.js';
import { failureOf } from '../ending.js';
import type { Serving } from './carry-out.js';

/** Gives replicas the record's version again, each independently and as often as it takes. */
export function restore(view: PolicyView, { service, heartbeat_ms, shown }: Serving) {
  const running = new Map<string, { scope: CancellationScope; ended: Promise<void> }>();
  const one = async (replica: string): Promise<void> => {
    for (let failures = 0; ; failures++) {
      try {
        const restored = await restoreReplica({ service, replica }, heartbeat_ms);
        shown.recorded(restored.view);
        return;
      } catch (error) {
        if (isCancellation(error)) throw error;
        shown.failed(replica, failureOf(error).message);
      }
      await sleep(restoreDelayMs(failures), { summary: `until ${replica} is tried again` });
    }
  };
  const begin = (replica: string): void => {
    const scope = new CancellationScope();
    const ended = scope
      .run(() => one(replica))
      .catch(() => undefined)
      .then(() => {
        if (running.get(replica)?.scope === scope) running.delete(replica);
      });
    running.set(replica, { scope, ended });
  };
  const follow = (now: PolicyView): void => {
    const due = toRestore(now);
    for (const [replica, { scope }] of running) if (!due.includes(replica)) scope.cancel();
    for (const replica of due) if (!running.has(replica)) begin(replica);
  };
  follow(view);
  return {
    /** Begins with replicas that have come, and leaves those alone that have gone. */
    follow,
    /** Resolves when it no longer touches any replica. */
    stop: async (): Promise<void> => {
      const all = [...running.values()];
      for (const { scope } of all) scope.cancel();
      await Promise.all(all.map(({ ended }) => ended));
    },
  };
}
