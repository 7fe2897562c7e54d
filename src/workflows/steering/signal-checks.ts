import type { Tally, Waiting } from '../../activities/contract.js';
import type { GroupNews } from '../../activities/contract/stream.js';

/**
 * Any client of the server may send a signal. Signals of an unexpected shape are ignored: an exception would fail the
 * workflow task again and again, and a wrong number would be waited for.
 */

export function isWaiting(value: unknown): value is Waiting | null {
  if (value === null) return true;
  return isObject(value) && isText(value['service']) && isText(value['message']);
}

/** How many rollouts a slice may have in flight, and how many it may replace. */
export function isShare(inFlight: unknown, replacements: unknown): boolean {
  return isCount(inFlight) && (replacements === undefined || isCount(replacements));
}

export function isTallyOf(
  value: unknown,
): value is { first: number; tally: Tally; ended?: number[] } {
  if (!isObject(value) || !isCount(value['first'])) return false;
  const { tally, ended = [] } = value;
  if (!isObject(tally) || !Array.isArray(ended) || !ended.every(isCount)) return false;
  const { replacements = 0, reward_sum } = tally;
  const { failures = {} } = tally;
  return (
    COUNTS.every((name) => isCount(tally[name])) &&
    isCount(replacements) &&
    isNumber(reward_sum) &&
    isFailures(failures)
  );
}

const OUTCOMES: readonly unknown[] = ['complete', 'filtered', 'untrained', 'failed', null];

export function isGroupNews(value: unknown): value is GroupNews {
  if (!isObject(value) || !isCount(value['group'])) return false;
  const { outcome, failures = {} } = value;
  return OUTCOMES.includes(outcome) && isFailures(failures);
}

const COUNTS = ['done', 'running', 'valid', 'turns', 'tokens'];

const isFailures = (value: unknown): boolean =>
  isObject(value) &&
  Object.values(value).every(
    (one) =>
      isObject(one) &&
      isCount(one['rollouts']) &&
      isText(one['message']) &&
      (one['example'] === undefined || isText(one['example'])),
  );

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

const isText = (value: unknown): boolean => typeof value === 'string';

const isNumber = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value);

export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
