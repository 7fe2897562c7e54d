import type { Tally, Waiting } from '../../activities/contract.js';
import type { GroupNews } from '../../activities/contract/stream.js';

/**
 * Any client of the server may send a signal. Signals of an unexpected shape are ignored: an exception would fail the
 * workflow task again and again, and a wrong number would be waited for.
 */

type Check = (value: unknown) => boolean;

/** Whether a value is an object whose fields are what each check wants; it may have others. */
export const hasFields = (value: unknown, fields: Readonly<Record<string, Check>>): boolean =>
  isObject(value) && Object.entries(fields).every(([name, check]) => check(value[name]));

/** The field may be absent. */
export const maybe =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

export const isWaiting = (value: unknown): value is Waiting | null =>
  value === null || hasFields(value, { service: isText, message: isText });

/** How many rollouts a slice may have in flight, and how many it may replace. */
export const isShare = (inFlight: unknown, replacements: unknown): boolean =>
  isCount(inFlight) && maybe(isCount)(replacements);

export const isTallyOf = (
  value: unknown,
): value is { first: number; tally: Tally; ended?: number[] } =>
  hasFields(value, { first: isCount, tally: isTally, ended: maybe(isRows) });

const isRows: Check = (value) => Array.isArray(value) && value.every(isCount);

const isTally: Check = (value) =>
  hasFields(value, {
    done: isCount,
    running: isCount,
    valid: isCount,
    turns: isCount,
    tokens: isCount,
    reward_sum: Number.isFinite,
    replacements: maybe(isCount),
    failures: maybe(isFailures),
  });

const OUTCOMES: readonly unknown[] = ['complete', 'filtered', 'untrained', 'failed', null];

export const isGroupNews = (value: unknown): value is GroupNews =>
  hasFields(value, {
    group: isCount,
    outcome: (outcome) => OUTCOMES.includes(outcome),
    failures: maybe(isFailures),
  });

const isFailures: Check = (value) =>
  isObject(value) &&
  Object.values(value).every((one) =>
    hasFields(one, { rollouts: isCount, message: isText, example: maybe(isText) }),
  );

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

const isText: Check = (value) => typeof value === 'string';

export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
