import type { WeightControl, Bound } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { Published } from '../../model/policy/record.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { UpdateReplica } from '../contract/policy.js';
import { setTimeout as sleep } from 'node:timers/promises';

const DRAIN_LIMIT = '1m';

/** Streams that do not drain in time are cut. */
export async function pause({
  control,
  order,
  manner,
  paused_until,
  signal,
}: {
  control: WeightControl;
  order: Pick<UpdateReplica, 'mode' | 'drain_limit'>;
  manner: Pick<Published, 'cache'>;
  paused_until: number;
  signal: AbortSignal;
}): Promise<void> {
  const within_ms = paused_until - commonMs();
  const how = { mode: order.mode, cache: manner.cache };
  if (order.mode !== 'wait') {
    await control.pause(how, { within_ms, signal });
    return;
  }
  const drain_ms = Math.min(toMs(order.drain_limit ?? DRAIN_LIMIT), within_ms);
  try {
    await control.pause(how, { within_ms: drain_ms, signal });
  } catch (error) {
    const isLate = error instanceof Fault && error.status === null;
    if (!isLate || signal.aborted) throw error;
    await control.pause(
      { ...how, mode: 'abort' },
      { within_ms: paused_until - commonMs(), signal },
    );
  }
}

const CALL_MS = 10_000;
/** For all calls together. */
const RELEASE_MS = 30_000;
const BETWEEN_TRIES_MS = 1000;

/**
 * Ends a pause with unknown weights. Frozen streams are cut first, because they would continue under those weights;
 * then the engine is resumed. Returns false if the engine does not answer, and so serves nobody.
 */
export async function release(control: WeightControl): Promise<boolean> {
  const signal = AbortSignal.timeout(RELEASE_MS);
  const bound = { within_ms: CALL_MS, signal };
  try {
    await control.cutOff(bound);
    // It has no memory to go on with.
    if (await control.isAsleep(bound)) return true;
    await resume(control, bound);
    return true;
  } catch (error) {
    if (error instanceof Fault) return error.status !== null;
    if (signal.aborted) return false;
    throw error;
  }
}

/** Tries again: an engine that has just been cut off is there, and nobody else may end its pause. */
async function resume(control: WeightControl, bound: Bound): Promise<void> {
  for (;;) {
    try {
      await control.resume(bound);
      return;
    } catch (error) {
      if (!(error instanceof Fault) || !error.retryable) throw error;
      await sleep(BETWEEN_TRIES_MS);
      if (bound.signal.aborted) throw error;
    }
  }
}
