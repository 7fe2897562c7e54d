import {
  CancellationScope,
  CancelledFailure,
  continueAsNew,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  BatchResult,
  FailureFacts,
  RolloutPlan,
  RolloutResult,
  TurnProgress,
  TurnRef,
} from '../activities/contract.js';
import { closeBatch, finishRollout, startRollout, turnActivities } from './activity-options.js';
import type { LimitsChange, TurnLimits } from '../model/workflow-safe/limits.js';
import type { Ending } from './ending.js';
import { failWith, failureOf, untilEnd } from './ending.js';
import { watchHistory } from './long-history.js';
import type { RolloutLimits } from './steering/rollout-limits.js';
import { hearLimits } from './steering/rollout-limits.js';
import type { RolloutView } from './views/rollout-view.js';
import { showRollout } from './views/rollout-view.js';
import { checkReached } from './children/started-by-hand.js';

/**
 * One rollout: the policy and the environment take turns until one of them, a limit or a fault ends it.
 * A batch's child is given its place, a rollout started by hand its sample; either goes to the first activity unread.
 * A rollout of very many turns goes on in a new run, which is given what the one before it had reached.
 */
export async function rollout(
  input: unknown,
  reached: Reached | null = null,
): Promise<RolloutResult | BatchResult> {
  checkReached(reached);
  const view = showRollout();
  const limits = hearLimits(reached?.limits ?? null);
  const history = watchHistory();
  const started_at = reached?.started_at ?? workflowInfo().startTime.getTime();

  const ending = await untilEnd(async (limitTo) => {
    // 1. Open the journal: the prompt rendered, or as far as an earlier run came.
    const limitFromStart = (timeout_ms: number): void => {
      limitTo(started_at + timeout_ms);
    };
    if (reached === null) limits.starting(limitFromStart);
    const plan = reached?.plan ?? (await start(input, { limits, started_at }));
    view.planned(plan);
    limits.planned(plan, limitFromStart);
    // 2. Turns, until the journal says that the rollout has ended.
    for (let progress = plan.progress; progress.ended === null;) {
      if (history.isLong()) {
        const now = { plan: { ...plan, progress }, limits: limits.changed(), started_at };
        await continueAsNew<typeof rollout>(input, now);
      }
      const deadline = started_at + limits.timeoutMs(plan);
      const next = { plan, progress, deadline, limits: limits.ofTurns() };
      progress = await play(next, view).catch(
        startOver(() => start(input, { limits, started_at })),
      );
      view.progressed(progress);
    }
  });
  limits.close();
  if (ending.failure?.type === 'InvalidBatchRequest') throw failWith(ending.failure);

  // 3. Write the end, whatever ended it. A rollout that was started by hand is its own batch.
  view.finishing();
  const { result, failure, single } = await CancellationScope.nonCancellable(() =>
    finishRollout({ ...ending, rollout: input }),
  );
  view.finished(result);
  const batch = single ? await closeSingle(ending) : null;

  // 4. Report what the journal says.
  return reportAs(result, { failure, batch });
}

/** How far a rollout has come when it goes on in a new run. */
interface Reached {
  plan: RolloutPlan;
  limits: LimitsChange;
  /** Of the first run, by the server's clock: the deadline counts from there. */
  started_at: number;
}

/** Limits may change while a prompt waits for its engine, and the activity knows those that it was given. */
async function start(
  input: unknown,
  { limits, started_at }: { limits: RolloutLimits; started_at: number },
): Promise<RolloutPlan> {
  for (;;) {
    const told = limits.changed();
    try {
      return await startRollout(input, ...(Object.keys(told).length > 0 ? [told] : []));
    } catch (error) {
      const { type } = failureOf(error);
      if (!limits.mayStartAgain(type, { told, started_at })) throw error;
    }
  }
}

interface Turn {
  plan: RolloutPlan;
  progress: TurnProgress;
  /** Milliseconds since the epoch. */
  deadline: number;
  limits: TurnLimits | null;
}

function play(next: Turn, view: RolloutView): Promise<TurnProgress> {
  if (next.plan.agent !== undefined) return activitiesOf(next).runAgent(refOf(next));
  return next.plan.in_process ? playTurns(next) : takeTurn(next, view);
}

/** As many turns as fit into a turn slice, in one activity. */
function playTurns(next: Turn): Promise<TurnProgress> {
  return activitiesOf(next).playTurns(refOf(next));
}

/** One turn in two activities: nothing of the generation service is held while the environment works. */
async function takeTurn(next: Turn, view: RolloutView): Promise<TurnProgress> {
  const { generateTurn, stepEnvironment } = activitiesOf(next);
  const at = refOf(next);
  if (next.progress.phase === 'generate') view.progressed(await generateTurn(at));
  return await stepEnvironment(at);
}

/** An environment that lost the rollout's state has it start over: the journal says how far, and how often. */
function startOver(again: () => Promise<RolloutPlan>): (error: unknown) => Promise<TurnProgress> {
  return async (error) => {
    if (failureOf(error).type !== 'EnvironmentStateLost') throw error;
    return (await again()).progress;
  };
}

function activitiesOf({ plan, progress: { turn }, deadline }: Turn) {
  return turnActivities(plan, { turn, deadline });
}

function refOf({ plan: { batch_id, row, repeat }, progress: { turn }, limits }: Turn): TurnRef {
  return { batch_id, row, repeat, turn, ...(limits !== null && { limits }) };
}

function closeSingle({ stop_reason }: Ending): Promise<BatchResult> {
  const { workflowId } = workflowInfo();
  return CancellationScope.nonCancellable(() =>
    closeBatch({ batch_id: workflowId, stopped: stop_reason === 'stopped' }),
  );
}

/** The journal's word decides: a rollout that had ended by itself is complete, however it was interrupted then. */
function reportAs(
  result: RolloutResult,
  { failure, batch }: { failure: FailureFacts | null; batch: BatchResult | null },
): RolloutResult | BatchResult {
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
