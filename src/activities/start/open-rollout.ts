import type { BatchRequest, RolloutInput } from '../../model/batch-request.js';
import {
  isByHand,
  limitsOf,
  parseBatchId,
  placeOf,
  SingleRollout,
  toBatchRequest,
} from '../../model/batch-request.js';
import { Fault, takenOver } from '../../model/faults.js';
import { parsedAs } from '../../model/unknown-fields.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { invalidBatchRequest } from '../../model/problems.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { checkAgentIsThere } from '../agent/open-life.js';
import type { RolloutPlan } from '../contract.js';
import type { Body, Dependencies, Running } from '../dependencies.js';
import { restoreLimits } from '../limits/limit-facts.js';
import { prepareBatch } from '../plan/prepare-batch.js';
import { heartbeatFor } from '../../model/workflow-safe/heartbeats.js';
import type { Playing } from '../playing.js';
import type { Lease } from '../lease.js';
import { withLease } from '../lease.js';
import { playFromJournal } from '../play-from-journal.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { factsOf, pageOf, progressOf, unlistedOf } from '../report.js';
import { requestOf } from '../request-of.js';
import { playSlice } from '../turn/play-turns.js';
import { needsStart } from '../turn/session.js';
import { begin } from './begin.js';
import { inheritPrefix } from './inherit.js';

/**
 * Opens a rollout's journal, or finds it as far as it is, and plays on if that is possible here. Returns the plan,
 * which is all that the workflow needs. A rollout that fits into one turn slice is only this activity.
 */
export const openRollout: Body<'openRollout'> = async (
  [input, limits = {}, spent_ms = 0],
  running,
) => {
  const place = placeOf(input, running.attempt.workflow_id);
  const given = isByHand(input)
    ? parsedAs(SingleRollout, input)
    : await requestOf(place.batch_id, running.store);
  const { batch_id, row, repeat } = place;
  const ref = { batch_id, row, repeat };
  const { rollout_timeout = given.rollout_timeout } = limits;
  const deadline = { rollout_timeout, spent_ms };
  return await withLease({ ...running, ref, deadline }, async (lease) => {
    const is_batch = 'sample' in given;
    const request = is_batch ? await planSingle(given, { ...running, attempt: lease }) : given;
    return { ...(await open({ place, request, limits, lease }, running)), is_batch };
  });
};

/** A rollout started by hand brings its sample and is planned as a batch of one. Returns that batch's request. */
async function planSingle(single: SingleRollout, running: Running): Promise<BatchRequest> {
  const { attempt, store } = running;
  const { run_id } = attempt;
  const batch_id = parseBatchId(attempt.workflow_id);
  const { request, samples } = await prepareBatch(toBatchRequest(single), running);
  const { existed } = await store.createBatch({ batch_id, request, samples });
  // An abandoned attempt must not open what another one has closed.
  attempt.signal.throwIfAborted();
  if (existed) {
    const ref = { batch_id, row: 0, repeat: 0 };
    const { finished_in } = await store.readTrajectory(ref);
    // A rollout that its workflow has begun to finish is opened no more, and neither is its batch.
    if (finished_in === run_id) throw takenOver(`the journal of ${rolloutId(ref)}`);
    await restoreLimits({ batch_id, run: run_id }, store.facts);
    await store.reopenBatch(batch_id);
  }
  return await requestOf(batch_id, store);
}

interface RolloutOpening {
  place: RolloutInput;
  request: BatchRequest;
  limits: LimitsChange;
  lease: Lease;
}

async function open(
  { place, request, limits, lease }: RolloutOpening,
  dependencies: Dependencies,
): Promise<Omit<RolloutPlan, 'is_batch'>> {
  const { replaces } = place;
  checkRepeat(place, request);
  await checkAgentIsThere(lease.ref, { ...dependencies, ...lease });
  const ofTurns = turnLimitsOf(limits);
  const by = {
    activity: 'openRollout',
    reopen: true,
    ...(ofTurns !== null && { limits: ofTurns }),
    ...(replaces !== undefined && { replaces }),
    run: lease.run_id,
  };
  const play = async (playing: Playing): Promise<void> => {
    const { trajectory } = playing.journal;
    if (needsStart(trajectory)) await begin(playing, { ...dependencies, request });
    try {
      await inheritPrefix(playing, dependencies);
      if (!(deployedFor(trajectory, dependencies)?.plays_on ?? true)) return;
      await playSlice(playing, dependencies);
    } catch (error) {
      // The rollout starts over in another session; its beginning throws the third loss.
      if (!(error instanceof Fault) || error.type !== 'EnvironmentStateLost') throw error;
      await play(playing);
    }
  };
  const trajectory = await playFromJournal(lease, { ...dependencies, by, play });
  const { queues, plays } = whereIsPlayed(trajectory, dependencies);
  return {
    ...lease.ref,
    task_name: '',
    policy_version: request.policy_version,
    ...factsOf(trajectory),
    ...pageOf(rolloutId(lease.ref), dependencies),
    plays,
    heartbeat_timeout_ms: heartbeatFor(dependencies.deployment, request.max_in_flight),
    queues,
    limits: { ...limitsOf(request), ...trajectory.limits },
    progress: progressOf(trajectory),
    ...unlistedOf(dependencies),
  };
}

const deployedFor = ({ start }: Trajectory, { environment }: Dependencies) =>
  environment(start?.task_name ?? '');

/** An environment that this worker lacks fails in its first step. */
function whereIsPlayed(
  trajectory: Trajectory,
  dependencies: Dependencies,
): Pick<RolloutPlan, 'plays' | 'queues'> {
  const { start } = trajectory;
  const { plays_on = true, task_queue = '' } = deployedFor(trajectory, dependencies) ?? {};
  const { generation_queue } = dependencies.deployment;
  const { verify = null } = start?.program ?? {};
  const isOneActivity = start?.plays === 'agent' && verify === null;
  return {
    plays: plays_on || isOneActivity ? 'in_slices' : 'by_turns',
    queues: {
      playTurns: plays_on ? generation_queue : task_queue,
      generateTurn: generation_queue,
      stepEnvironment:
        verify === null ? task_queue : (dependencies.environment(verify)?.task_queue ?? ''),
    },
  };
}

/** Repeats from `num_repeats` on are replacements, which only completion policy `refill` has. */
function checkRepeat(
  { repeat, replaces }: RolloutInput,
  { num_repeats, completion }: BatchRequest,
): void {
  const more = completion.policy === 'refill' ? completion.max_replacements : 0;
  if (repeat >= num_repeats + more) {
    const what = `expected less than ${num_repeats + more} under completion policy ${completion.policy}, got ${repeat}`;
    throw invalidBatchRequest([{ where: 'repeat', what }]);
  }
  if (replaces !== undefined && repeat < num_repeats) {
    const what = `expected only with a repeat of at least num_repeats ${num_repeats}, got it with ${repeat}`;
    throw invalidBatchRequest([{ where: 'replaces', what }]);
  }
}
