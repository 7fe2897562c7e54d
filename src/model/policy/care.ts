import { isServing, restoreDelayMs } from '../workflow-safe/policy.js';
import type { PolicyRecord } from './record.js';
import { fieldsOf } from './record.js';
import { hasLeft } from './replicas.js';

/** When a worker asks a policy's workflow to look after its replicas. */

export function needsCare(record: PolicyRecord, urls: readonly string[]): boolean {
  const isNew = urls.some((url) => record.replicas[url] === undefined);
  return (
    isNew || Object.values(record.replicas).some((entry) => !isServing(entry) && !hasLeft(entry))
  );
}

/** A replica that is paused beyond its limit, so its updater is gone; or one that should have left, or be awake. */
export const isOverdue = ({ replicas, sleep }: PolicyRecord, now: number): boolean =>
  (sleep !== null && sleep.until < now) ||
  Object.values(replicas).some((entry) => {
    const { paused_until, draining_until } = fieldsOf(entry);
    const isDrained = draining_until !== null && draining_until < now && !hasLeft(entry);
    return isDrained || (paused_until !== null && paused_until < now);
  });

/** Longer than the workflow waits between two tries, each of which changes the record. */
const FORGOTTEN_MS = restoreDelayMs(Infinity) + 60_000;

/** A signal was lost. While a replica is updated, a record stays the same as long as a load takes. */
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
