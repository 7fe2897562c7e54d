import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import { restoreDelayMs, toRestore } from '../../model/workflow-safe/policy.js';
import type { PolicySurvey } from '../../activities/contract/policy.js';
import { restoreReplica } from '../activity-options.js';
import { failureOf } from '../ending.js';
import type { ShownPolicy } from './policy-view.js';

export interface Restoring {
  /** Resolves when it no longer touches any replica. */
  stop(): Promise<void>;
}

/** Gives replicas the record's version again, each independently and as often as it takes. */
export function restore(
  { view, heartbeat_timeout_ms }: PolicySurvey,
  { service, shown }: { service: string; shown: ShownPolicy },
): Restoring {
  const scope = new CancellationScope();
  const one = async (replica: string): Promise<void> => {
    for (let failures = 0; ; failures++) {
      try {
        const restored = await restoreReplica({ service, replica }, heartbeat_timeout_ms);
        shown.recorded(restored.view);
        return;
      } catch (error) {
        if (isCancellation(error)) throw error;
        shown.failed(replica, failureOf(error).message);
      }
      await sleep(restoreDelayMs(failures), { summary: `until ${replica} is tried again` });
    }
  };
  const all = scope.run(() => Promise.allSettled((view === null ? [] : toRestore(view)).map(one)));
  return {
    stop: async () => {
      scope.cancel();
      await all.catch(() => undefined);
    },
  };
}
