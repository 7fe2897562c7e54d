import { CancellationScope, CancelledFailure } from '@temporalio/workflow';
import type {
  BatchResult,
  FinishedRollout,
  RolloutPlan,
  RolloutResult,
  TurnActivity,
  TurnProgress,
} from '../activities/contract.js';
import type { LimitsChange, TurnLimits } from '../model/workflow-safe/limits.js';
import { rolloutId } from '../model/workflow-safe/rollout-id.js';
import type { StopReason } from '../model/workflow-safe/stop-reasons.js';
import type { OpeningOptions } from './activity-options.js';
import { finishRollout, openRollout, turnActivity } from './activity-options.js';
import type { EndedBy } from './ending.js';
import { failWith, failureOf, untilEnd } from './ending.js';
import type { LimitsSoFar, RolloutLimits } from './steering/rollout-limits.js';
import type { RolloutView } from './views/rollout-view.js';

/** How far a rollout has come when it continues in a new run. */
export interface Reached extends LimitsSoFar {
  plan: RolloutPlan;
}

interface RolloutPlay extends EndedBy, OpeningOptions {
  limits: RolloutLimits;
  /** Absent: it has no workflow of its own, and its journal shows it. */
  view?: RolloutView;
  /** The plan of its previous run; absent: it has none. */
  plan?: RolloutPlan | undefined;
  /** Continues in a new run; null: there is no need yet. */
  inNewRun?: (now: Reached) => Promise<never> | null;
  /** Called when it plays no more, before it is finished. */
  onEnded?: () => void;
}

/**
 * Plays one rollout: policy and environment take turns until one of them, a limit or a fault ends it. The result is
 * what the journal says; a rollout that has failed or was cancelled throws.
 */
export async function playRollout(
  input: unknown,
  { limits, view, inNewRun, onEnded, ...playing }: RolloutPlay,
): Promise<RolloutResult | BatchResult> {
  const opening = (): Promise<RolloutPlan> => open(input, { limits, ...playing });

  const ending = await untilEnd(async (limitTo) => {
    limits.onDeadline(limitTo);
    view?.onUnserved(limits.unserved);
    // 1. Open the journal. The same activity plays for one turn slice if it can.
    const plan = playing.plan ?? (await opening());
    if (plan.progress.ended === null) {
      limits.planned(plan);
      view?.planned(plan);
    }
    const again = startOver(opening);
    // 2. Play turns until the journal has the rollout's end.
    let { progress } = plan;
    while (progress.ended === null) {
      const anew = inNewRun?.({ plan: { ...plan, progress }, ...limits.soFar() });
      if (anew != null) await anew;
      const next = { plan, progress, left_ms: limits.leftMs(), limits: limits.ofTurns() };
      progress = await play(next, view).catch(again);
      view?.progressed(progress);
    }
    return plan.is_batch ? null : endedAs(plan, { ...progress, ended: progress.ended });
  }, playing);
  limits.close();
  onEnded?.();

  // 3. End here what no turn has ended: timeout, stop, cancellation, a fault. Close a batch of one, too.
  if ('result' in ending) {
    view?.finished(ending);
    return ending.result;
  }
  // A raw input may name no rollout that could be finished.
  const isRaw = !playing.in_slice;
  if (ending.failure?.type === 'InvalidBatchRequest' && isRaw) throw failWith(ending.failure);
  view?.finishing();
  const finished = await CancellationScope.nonCancellable(() =>
    finishRollout({ ...ending, rollout: input }),
  );
  view?.finished(finished);

  // 4. Report what the journal says.
  return report(finished);
}

/**
 * Opens the rollout again if a limit that failed it has changed meanwhile: the activity has only the limits that it
 * was given, and knows nothing of an earlier opening.
 */
async function open(
  input: unknown,
  { limits, ...opening }: Pick<RolloutPlay, 'limits'> & OpeningOptions,
): Promise<RolloutPlan> {
  for (;;) {
    const given = limits.changed();
    const spent_ms = limits.spentMs();
    try {
      const isNew = spent_ms === 0 && Object.keys(given).length === 0;
      const args: [LimitsChange?, number?] = isNew ? [] : [given, spent_ms];
      return await openRollout(limits.leftMs(), opening)(input, ...args);
    } catch (error) {
      if (!limits.mayOpenAgain(failureOf(error).type, given)) throw error;
    }
  }
}

interface Turn {
  plan: RolloutPlan;
  progress: TurnProgress;
  left_ms: number;
  limits: TurnLimits | null;
}

/** By turns, what each phase is played by: no place at the generation service is held while the environment works. */
const BY_TURNS = {
  generate: ['generateTurn', 'stepEnvironment'],
  step: ['stepEnvironment'],
  run: ['playTurns'],
} as const;

/** Plays as many turns as fit into a turn slice, or one turn in two activities. */
async function play(next: Turn, view: RolloutView | undefined): Promise<TurnProgress> {
  const { plan, progress } = next;
  const [first, then] =
    plan.plays === 'in_slices' ? ['playTurns' as const] : BY_TURNS[progress.phase];
  const played = await run(first, next);
  if (then === undefined) return played;
  view?.progressed(played);
  return await run(then, next);
}

function run(
  activity: TurnActivity,
  { plan, progress: { turn }, left_ms, limits }: Turn,
): Promise<TurnProgress> {
  const { batch_id, row, repeat } = plan;
  const at = { batch_id, row, repeat, turn, ...(limits !== null && { limits }) };
  return turnActivity(activity, { plan, turn, left_ms })(at);
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

function endedAs(
  plan: RolloutPlan,
  progress: TurnProgress & { ended: StopReason },
): Pick<FinishedRollout, 'result' | 'facts' | 'unlisted'> {
  const { turn, total_reward, total_tokens, attempt, dropped, untrained, ended } = progress;
  return {
    result: {
      rollout_id: rolloutId(plan),
      stop_reason: ended,
      total_reward,
      turn_count: turn,
      total_tokens,
      ...{ attempt, dropped, untrained },
    },
    facts: plan,
    ...(plan.unlisted !== undefined && { unlisted: plan.unlisted }),
  };
}

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
