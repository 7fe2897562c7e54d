import {
  CancellationScope,
  CancelledFailure,
  continueAsNew,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  BatchResult,
  FinishedRollout,
  RolloutPlan,
  RolloutResult,
  TurnProgress,
} from '../activities/contract.js';
import type { LimitsChange, TurnLimits } from '../model/workflow-safe/limits.js';
import { rolloutId } from '../model/workflow-safe/rollout-id.js';
import type { StopReason } from '../model/workflow-safe/stop-reasons.js';
import { finishRollout, openRollout, turnActivity } from './activity-options.js';
import { checkReached } from './steering/input-checks.js';
import { failWith, failureOf, untilEnd } from './ending.js';
import { watchHistory } from './long-history.js';
import type { RolloutLimits } from './steering/rollout-limits.js';
import { handleLimitUpdates, timeoutToOpenMs } from './steering/rollout-limits.js';
import { lookAtItself } from './views/looks.js';
import type { RolloutView } from './views/rollout-view.js';
import { showRollout } from './views/rollout-view.js';

/**
 * One rollout: policy and environment take turns until one of them, a limit or a fault ends it. A batch's child gets
 * its place, and a rollout started by hand gets its sample; the first activity reads either. A rollout of very many
 * turns continues in a new run, which receives the state of the previous one.
 */
export async function rollout(
  input: unknown,
  reached: Reached | null = null,
): Promise<RolloutResult | BatchResult> {
  checkReached(reached);
  const view = showRollout();
  const limits = handleLimitUpdates(reached?.limits ?? null);
  const history = watchHistory();
  const looks = lookAtItself(view.seen);
  let started_at = reached?.started_at ?? workflowInfo().runStartTime.getTime();

  const ending = await untilEnd(async (limitTo) => {
    const limitToTimeout = (timeout_ms: number): void => {
      limitTo(started_at + timeout_ms);
    };
    limits.whenTimeoutChanges(limitToTimeout);
    // Time in which no replica serves does not count against the rollout.
    view.onHold(
      whileHeld(limitTo, (held_ms) => {
        started_at += held_ms;
        limits.whenTimeoutChanges(limitToTimeout);
      }),
    );
    // 1. Open the journal. The same activity plays for one turn slice if it can.
    const plan = reached?.plan ?? (await open(input, { limits, started_at }));
    if (plan.progress.ended === null) {
      limits.planned(plan);
      view.planned(plan);
    }
    const again = startOver(() => open(input, { limits, started_at }));
    // 2. Play turns until the journal has the rollout's end.
    let { progress } = plan;
    while (progress.ended === null) {
      if (history.isLong()) {
        const now = { plan: { ...plan, progress }, limits: limits.changed(), started_at };
        await continueAsNew<typeof rollout>(input, now);
      }
      const deadline = started_at + limits.timeoutMs(plan);
      const next = { plan, progress, deadline, limits: limits.ofTurns() };
      progress = await play(next, view).catch(again);
      view.progressed(progress);
    }
    return plan.is_batch ? null : endedAs(plan, { ...progress, ended: progress.ended });
  });
  limits.close();
  looks.over();

  // 3. End here what no turn has ended: timeout, stop, cancellation, a fault. Close a batch of one, too.
  if ('result' in ending) {
    view.finished(ending);
    return ending.result;
  }
  if (ending.failure?.type === 'InvalidBatchRequest') throw failWith(ending.failure);
  view.finishing();
  const finished = await CancellationScope.nonCancellable(() =>
    finishRollout({ ...ending, rollout: input }),
  );
  view.finished(finished);

  // 4. Report what the journal says.
  return report(finished);
}

/** How far a rollout has come when it continues in a new run. */
interface Reached {
  plan: RolloutPlan;
  limits: LimitsChange;
  /**
   * When the first run began, on the server's clock: after a delay of its start, and anew after a reset. The deadline
   * counts from there.
   */
  started_at: number;
}

/** Suspends the deadline while the rollout is held up; then calls back with the duration. */
function whileHeld(
  limitTo: (deadline: null) => void,
  over: (held_ms: number) => void,
): (isHeld: boolean) => void {
  let since: number | null = null;
  return (isHeld) => {
    if (isHeld && since === null) limitTo(null);
    if (!isHeld && since !== null) over(Date.now() - since);
    since = isHeld ? (since ?? Date.now()) : null;
  };
}

/**
 * Opens the rollout again if a limit that failed it has changed meanwhile: the activity has only the limits that it
 * was given.
 */
async function open(
  input: unknown,
  { limits, started_at }: { limits: RolloutLimits; started_at: number },
): Promise<RolloutPlan> {
  for (;;) {
    const given = limits.changed();
    try {
      const until = timeLeft(timeoutToOpenMs(input, given), started_at);
      return await openRollout(until)(input, ...(Object.keys(given).length > 0 ? [given] : []));
    } catch (error) {
      const { type } = failureOf(error);
      if (!limits.mayOpenAgain(type, { given, started_at })) throw error;
    }
  }
}

/** Until when a worker must have taken the opening; it then ends itself. null: nobody knows. */
const timeLeft = (timeout_ms: number | null, started_at: number): number | null =>
  timeout_ms === null ? null : Math.max(1, started_at + timeout_ms - Date.now());

interface Turn {
  plan: RolloutPlan;
  progress: TurnProgress;
  /** Milliseconds since the epoch. */
  deadline: number;
  limits: TurnLimits | null;
}

/**
 * Plays as many turns as fit into a turn slice, or one turn in two activities. With two, no place at the generation
 * service is held while the environment works.
 */
async function play(next: Turn, view: RolloutView): Promise<TurnProgress> {
  const { plays } = next.plan;
  if (plays === 'in_slices') return await run('playTurns', next);
  if (next.progress.phase === 'generate') view.progressed(await run('generateTurn', next));
  return await run('stepEnvironment', next);
}

function run(
  activity: keyof RolloutPlan['queues'],
  { plan, progress: { turn }, deadline, limits }: Turn,
): Promise<TurnProgress> {
  const { batch_id, row, repeat } = plan;
  const at = { batch_id, row, repeat, turn, ...(limits !== null && { limits }) };
  return turnActivity(activity, { plan, turn, deadline })(at);
}

/** Losses of the journal in one run, which a store that is restored again and again may cause. */
const MOST_JOURNALS_LOST = 3;

/**
 * If the environment lost the rollout's state, or the store what its journal had, it starts over. The journal says how
 * far it is, and how often its state was lost; a journal cannot say how often it was lost itself.
 */
function startOver(again: () => Promise<RolloutPlan>): (error: unknown) => Promise<TurnProgress> {
  let lost = 0;
  return async (error) => {
    const { type } = failureOf(error);
    if (type === 'JournalLost') lost += 1;
    else if (type !== 'EnvironmentStateLost') throw error;
    if (lost >= MOST_JOURNALS_LOST) throw error;
    return (await again()).progress;
  };
}

const endedAs = (
  plan: RolloutPlan,
  {
    turn,
    total_reward,
    total_tokens,
    attempt,
    dropped,
    untrained,
    ended,
  }: TurnProgress & { ended: StopReason },
): Pick<FinishedRollout, 'result' | 'facts'> => ({
  result: {
    rollout_id: rolloutId(plan),
    stop_reason: ended,
    total_reward,
    turn_count: turn,
    total_tokens,
    ...(attempt !== undefined && { attempt }),
    ...(dropped !== undefined && { dropped }),
    ...(untrained !== undefined && { untrained }),
  },
  facts: plan,
});

/** The journal decides: a rollout that had ended by itself is complete, however it was interrupted afterwards. */
function report({ result, failure, batch }: FinishedRollout): RolloutResult | BatchResult {
  switch (result.stop_reason) {
    case 'failed':
    case 'timeout':
      throw failWith(failure ?? { type: 'Failed', message: 'the rollout failed' });
    case 'cancelled':
      throw new CancelledFailure('the rollout was cancelled');
    default:
      return batch ?? result;
  }
}
