import { isServing, restoreDelayMs } from '../workflow-safe/policy.js';
import type { PolicyRecord } from './record.js';
import { hasLeft } from './record.js';

/** When a worker asks a policy's workflow to look after its replicas. */

/** Whether something is left that only the workflow can repair. */
export function needsCare(record: PolicyRecord, urls: readonly string[]): boolean {
  const isNew = urls.some((url) => record.replicas[url] === undefined);
  return (
    isNew || Object.values(record.replicas).some((entry) => !isServing(entry) && !hasLeft(entry))
  );
}

/** A replica that is paused beyond its limit, so its updater is gone; or one that should have left, or be awake. */
export const isOverdue = ({ replicas, sleep }: PolicyRecord, now: number): boolean =>
  (sleep !== null && sleep.until < now) ||
  Object.values(replicas).some(
    (entry) =>
      (entry.paused_until !== null && entry.paused_until < now) ||
      (entry.draining_until !== null && entry.draining_until < now && !hasLeft(entry)),
  );

/** Longer than the workflow waits between two tries, each of which changes the record. */
const FORGOTTEN_MS = restoreDelayMs(Infinity) + 60_000;

/**
 * Nobody gives weights to an unknown replica, so the signal to its workflow was lost. While another replica is updated, the
 * record stays the same for as long as a load takes, and the workflow must not be disturbed.
 */
export function isForgotten(
  { version, replicas }: PolicyRecord,
  { unchanged_ms }: { unchanged_ms: number },
): boolean {
  const states = new Set(Object.values(replicas).map(({ state }) => state));
  return (
    version !== null &&
    unchanged_ms >= FORGOTTEN_MS &&
    states.has('unknown') &&
    !states.has('updating')
  );
}
