import { continueAsNew, setHandler, workflowInfo } from '@temporalio/workflow';
import type { BatchResult, RolloutResult } from '../activities/contract.js';
import { watchHistory } from './long-history.js';
import type { Reached } from './play-rollout.js';
import { playRollout } from './play-rollout.js';
import { checkReached, isHeartbeat } from './steering/input-checks.js';
import { HEARTBEAT_MEMO, stopSignal } from './steering/messages.js';
import { handleLimitUpdates } from './steering/rollout-limits.js';
import { lookAtItself } from './views/looks.js';
import { showRollout } from './views/rollout-view.js';

/**
 * One rollout with a workflow of its own. A batch's child gets its place, and a rollout started by hand gets its
 * sample; the first activity reads either. A rollout of very many turns continues in a new run, which receives the
 * state of the previous one.
 */
export async function rollout(
  input: unknown,
  reached: Reached | null = null,
): Promise<RolloutResult | BatchResult> {
  checkReached(reached);
  const view = showRollout();
  const limits = handleLimitUpdates(reached, input);
  const history = watchHistory();
  const looks = lookAtItself(view.seen);
  // Any client may have set it.
  const heartbeat_timeout_ms = workflowInfo().memo?.[HEARTBEAT_MEMO];
  return await playRollout(input, {
    limits,
    view,
    onStop: (stop) => {
      setHandler(stopSignal, stop);
    },
    plan: reached?.plan,
    inNewRun: (now) => (history.isLong() ? continueAsNew<typeof rollout>(input, now) : null),
    onEnded: () => {
      looks.cancel();
    },
    in_slice: false,
    ...(isHeartbeat(heartbeat_timeout_ms) && { heartbeat_timeout_ms }),
  });
}
