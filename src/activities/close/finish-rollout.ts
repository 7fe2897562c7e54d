import type { RolloutRef } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { Fault } from '../../model/faults.js';
import type { Failure } from '../../model/journal.js';
import type { StopReason } from '../../model/workflow-safe/stop-reasons.js';
import { naturalEnd } from '../../model/turn/stop-rules.js';
import type { Trajectory } from '../../model/trajectory.js';
import type {
  Activities,
  FailureFacts,
  FinishRollout,
  FinishedRollout,
  RolloutResult,
} from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { endSessionOf } from '../turn/session.js';
import { isSingle, placeOf } from '../start/start-rollout.js';

/**
 * Writes the end of a rollout, also where nothing else was written. What the journal says wins: an `end` that stands,
 * then a valid end that the turns have reached, then the reason that the workflow noted.
 */
export function createFinishRollout(dependencies: Dependencies): Activities['finishRollout'] {
  const { attempt, store } = dependencies;
  return (input) =>
    attempt(async ({ workflow_id, number, signal, warn }) => {
      const ref = placeOf(input.rollout, workflow_id);
      const single = isSingle(input.rollout);
      if (single && (await store.findRequest(ref.batch_id)) === null)
        return nothingToFinish(ref, input);
      const journal = await store.claim(ref, { activity: 'finishRollout', attempt: number });
      try {
        const { trajectory } = journal;
        if (trajectory.end === null) {
          const natural = naturalEnd(trajectory);
          const stop_reason = natural ?? input.stop_reason;
          if (stop_reason === null) {
            throw new Fault({
              type: 'StoreFault',
              message: `the journal of ${rolloutId(ref)} has not reached an end`,
            });
          }
          await endSessionOf({ journal, ref, signal, warn }, dependencies);
          await journal.append({
            kind: 'end',
            stop_reason,
            totals: totalsOf(trajectory),
            failure: natural === null ? failureOf(input, trajectory.turns.length) : null,
          });
        }
        await journal.commit();
        return {
          result: resultOf(rolloutId(ref), trajectory),
          failure: standingFailure(trajectory),
          single,
        };
      } finally {
        journal.release();
      }
    });
}

const totalsOf = ({
  turns,
  total_reward,
  assistant_tokens,
  env_tokens,
}: Trajectory): {
  turn_count: number;
  total_reward: number;
  total_tokens: number;
} => ({ turn_count: turns.length, total_reward, total_tokens: assistant_tokens + env_tokens });

const REASONS = {
  timeout: { type: 'TimedOut', message: 'rollout_timeout passed' },
  stopped: { type: 'Stopped', message: 'the rollout was stopped' },
  cancelled: { type: 'Cancelled', message: 'the rollout was cancelled' },
  failed: { type: 'Failed', message: 'the rollout failed' },
} as const;

function failureOf({ stop_reason, failure }: FinishRollout, turn: number): Failure | null {
  if (stop_reason === null) return null;
  return { ...(failure ?? REASONS[stop_reason]), turn };
}

/** A rollout started by hand that was ended before its batch of one was planned: there is no journal to end. */
function nothingToFinish(ref: RolloutRef, input: FinishRollout): FinishedRollout {
  const totals = { turn_count: 0, total_reward: 0, total_tokens: 0 };
  const result = {
    rollout_id: rolloutId(ref),
    stop_reason: input.stop_reason ?? 'failed',
    ...totals,
  };
  return { result, failure: input.failure, single: false };
}

function standingFailure({ end }: Trajectory): FailureFacts | null {
  if (end?.failure == null) return null;
  const { type, message } = end.failure;
  return { type, message };
}

function resultOf(rollout_id: string, trajectory: Trajectory): RolloutResult {
  const stop_reason: StopReason = trajectory.end?.stop_reason ?? 'failed';
  const { run } = trajectory.agent;
  return {
    rollout_id,
    stop_reason,
    ...totalsOf(trajectory),
    ...(run !== null && { attempt: run.attempt }),
  };
}
