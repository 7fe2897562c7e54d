import { workflowInfo } from '@temporalio/workflow';
import type { BatchOptions, SliceInput } from '../../activities/contract.js';
import type { PolicyInput } from '../../activities/contract/policy.js';
import { failWith } from '../ending.js';
import { limitsProblem } from '../../model/workflow-safe/limits.js';
import { quote } from '../../model/workflow-safe/fields.js';
import { policyId } from '../../model/workflow-safe/policy.js';
import { BATCH_ID } from '../../model/workflow-safe/rollout-id.js';
import type { GroupInput } from '../../activities/contract/stream.js';
import { MOST_CHILDREN } from '../children/refill.js';
import { isCount } from './signal-checks.js';

/**
 * Any client of the server may start a workflow with any input. Activities check the input that reaches them unread.
 * Input that workflow code itself reads is checked here: an exception would fail the workflow task again and again, and
 * a slice of a billion rows would end every worker that takes its task.
 */
export function checkSliceInput(input: unknown): SliceInput {
  if (!isSlice(input)) {
    throw refused(
      `expected the input that a batch gives its slice, at most ${MOST_CHILDREN} rollouts; start rolloutBatch instead`,
    );
  }
  return input;
}

/** The same for a stream's group. */
export function checkGroupInput(input: unknown): GroupInput {
  if (isGroup(input)) return input;
  throw refused('expected the input that a stream gives its group; start rolloutStream instead');
}

function isGroup(input: unknown): input is GroupInput {
  if (typeof input !== 'object' || input === null) return false;
  const group = input as Record<keyof GroupInput, unknown>;
  const { stream_id, num_repeats, max_replacements, limits } = group;
  return (
    isBatchId(stream_id) &&
    [group.group, num_repeats, max_replacements].every(isCount) &&
    Number(num_repeats) <= MOST_CHILDREN &&
    (group.filter === null || group.filter === 'zero_variance') &&
    (limits === undefined || limitsProblem(limits) === null) &&
    (group.heartbeat_timeout_ms === undefined || isHeartbeat(group.heartbeat_timeout_ms))
  );
}

/** The same for a policy. Only its previous run may pass on what it has done. */
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

function isSlice(input: unknown): input is SliceInput {
  if (typeof input !== 'object' || input === null) return false;
  const slice = input as Record<keyof SliceInput, unknown>;
  const { first, last, num_repeats, k, limits, max_replacements = 0, rollout_timeout } = slice;
  const { plays_rollouts = false } = slice;
  return (
    isBatchId(slice.batch_id) &&
    [first, last, num_repeats, slice.max_in_flight, slice.tallies, max_replacements].every(
      isCount,
    ) &&
    (Number(last) - Number(first) + 1) * Number(num_repeats) <= MOST_CHILDREN &&
    (k === null || isCount(k)) &&
    (limits === undefined || limitsProblem(limits) === null) &&
    (rollout_timeout === undefined || limitsProblem({ rollout_timeout }) === null) &&
    (slice.heartbeat_timeout_ms === undefined || isHeartbeat(slice.heartbeat_timeout_ms)) &&
    typeof plays_rollouts === 'boolean'
  );
}
