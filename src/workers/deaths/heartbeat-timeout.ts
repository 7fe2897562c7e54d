import { toMs } from '../../model/workflow-safe/durations.js';
import type { Config } from '../config.js';

/** The heartbeat timeout of activities that play; `seen`: other workers notice the death of one. */
export const heartbeatMs = (
  { worker }: { worker: Pick<Config['worker'], 'heartbeat_timeout'> },
  seen: boolean,
): number => toMs(worker.heartbeat_timeout ?? (seen ? '30s' : '10s'));
