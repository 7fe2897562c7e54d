import { workflowInfo } from '@temporalio/workflow';
import type { BatchOptions, SliceInput, Tally, Waiting } from '../../activities/contract.js';
import type { PolicyInput } from '../../activities/contract/policy.js';
import { failWith } from '../ending.js';
import { limitsProblem } from '../../model/workflow-safe/limits.js';
import { quote } from '../../model/workflow-safe/fields.js';
import { policyId } from '../../model/workflow-safe/policy.js';
import { BATCH_ID } from '../../model/workflow-safe/rollout-id.js';
import type { GroupInput, GroupNews } from '../../activities/contract/stream.js';
import { MOST_CHILDREN } from '../children/refill.js';

/**
 * Any client of the server may start a workflow with any input, and send any signal. Activities check the input that
 * reaches them unread. What workflow code itself reads is checked here, because an exception would fail the workflow task
 * again and again. A wrong input is refused: a slice of a billion rows would end every worker that takes its task. A wrong
 * signal is ignored: its number would be waited for.
 */

export function checkSliceInput(input: unknown): SliceInput {
  if (!isSlice(input)) {
    throw refused(
      `expected the input that a batch gives its slice, at most ${MOST_CHILDREN} rollouts; start rolloutBatch instead`,
    );
  }
  return input;
}

export function checkGroupInput(input: unknown): GroupInput {
  if (isGroup(input)) return input;
  throw refused('expected the input that a stream gives its group; start rolloutStream instead');
}

const isGroup = (input: unknown): input is GroupInput =>
  hasFields(input, {
    stream_id: isBatchId,
    group: isCount,
    num_repeats: (value) => isCount(value) && value <= MOST_CHILDREN,
    max_replacements: isCount,
    filter: (value) => value === null || value === 'zero_variance',
    limits: maybe(isLimits),
    heartbeat_timeout_ms: maybe(isHeartbeat),
  });

const isLimits = (value: unknown): boolean => limitsProblem(value) === null;

/** A policy's. Only its previous run may pass on what it has done. */
export function checkPolicyInput(input: unknown): PolicyInput {
  const { service, updates, heard } = Object(input) as Partial<Record<keyof PolicyInput, unknown>>;
  const isNextRun = workflowInfo().continuedFromExecutionRunId !== undefined;
  if (typeof service !== 'string' || ((updates !== undefined || heard !== undefined) && !isNextRun))
    throw refused('expected {"service": the name of a generation service}');
  const { workflowId } = workflowInfo();
  // Two would publish over each other, and only this one is asked and woken.
  if (workflowId !== policyId(service))
    throw refused(
      `expected ${policyId(service)} as the workflow id of service ${quote(service)}, got ${workflowId}`,
    );
  return input as PolicyInput;
}

/**
 * The second input of a batch, for `planBatch`; []: none. A run that a reset has made from this one does not remove what
 * it played.
 */
export function checkBatchOptions(options: unknown): [] | [BatchOptions] {
  if (options === undefined || options === null) return [];
  const { restart, ...others } = Object(options) as Partial<Record<keyof BatchOptions, unknown>>;
  if (restart !== true || Object.keys(others).length > 0)
    throw refused('expected {"restart": true} as the second input, or none');
  const { runId, firstExecutionRunId } = workflowInfo();
  return runId === firstExecutionRunId ? [{ restart }] : [];
}

/** Only the previous run of a workflow may give this second input. */
export function checkReached(reached: unknown): void {
  if (reached === null || workflowInfo().continuedFromExecutionRunId !== undefined) return;
  throw refused('expected one input, got a second one');
}

/** A shorter timeout would end every attempt, a longer one wait for the dead. */
export const isHeartbeat = (value: unknown): value is number =>
  isCount(value) && value >= 1000 && value <= 24 * 3600_000;

const refused = (message: string): Error => failWith({ type: 'InvalidBatchRequest', message });

/** Child ids are derived from it, and a value that is no text would end the worker. */
const isBatchId = (value: unknown): boolean => typeof value === 'string' && BATCH_ID.test(value);

const isSlice = (input: unknown): input is SliceInput =>
  hasFields(input, {
    batch_id: isBatchId,
    first: isCount,
    last: isCount,
    num_repeats: isCount,
    max_in_flight: isCount,
    tallies: isCount,
    max_replacements: maybe(isCount),
    k: (value) => value === null || isCount(value),
    limits: maybe(isLimits),
    rollout_timeout: maybe((rollout_timeout) => isLimits({ rollout_timeout })),
    heartbeat_timeout_ms: maybe(isHeartbeat),
    plays_rollouts: maybe((value) => value === true),
  }) && rolloutsIn(input as SliceInput) <= MOST_CHILDREN;

const rolloutsIn = ({ first, last, num_repeats }: SliceInput): number =>
  (last - first + 1) * num_repeats;

type Check = (value: unknown) => boolean;

/** Whether a value is an object whose fields are what each check wants; it may have others. */
const hasFields = (value: unknown, fields: Readonly<Record<string, Check>>): boolean =>
  isObject(value) && Object.entries(fields).every(([name, check]) => check(value[name]));

/** The field may be absent. */
const maybe =
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
