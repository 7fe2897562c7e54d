import type { BatchRequest, RolloutInput } from '../../model/batch-request.js';
import { isByHand, limitsOf, placeOf } from '../../model/batch-request.js';
import { Fault } from '../../model/faults.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { invalidBatchRequest } from '../../model/problems.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { checkAgentIsThere } from '../agent/open-life.js';
import type { Activities, RolloutPlan } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
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
import { parseSingle, planSingle } from './plan-single.js';

/**
 * Opens a rollout's journal, or finds it as far as it is, and plays on if that is possible here. Returns the plan,
 * which is all that the workflow needs. A rollout that fits into one turn slice is only this activity.
 */
export function createOpenRollout(dependencies: Dependencies): Activities['openRollout'] {
  return (input, ...[limits = {}, spent_ms = 0]) =>
    dependencies.attempt(async (attempt) => {
      const place = placeOf(input, attempt.workflow_id);
      const given = isByHand(input)
        ? parseSingle(input)
        : await requestOf(place.batch_id, dependencies.store);
      const { batch_id, row, repeat } = place;
      const ref = { batch_id, row, repeat };
      const { rollout_timeout = given.rollout_timeout } = limits;
      const deadline = { rollout_timeout, spent_ms };
      return await withLease({ ...dependencies, attempt, ref, deadline }, async (lease) => {
        const is_batch = 'sample' in given;
        const request = is_batch
          ? await planSingle({ single: given, attempt: lease }, dependencies)
          : given;
        return { ...(await open({ place, request, limits, lease }, dependencies)), is_batch };
      });
    });
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
