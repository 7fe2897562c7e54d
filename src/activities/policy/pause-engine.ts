import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { Published } from '../../model/policy/record.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { UpdateReplica } from '../contract/policy.js';

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
