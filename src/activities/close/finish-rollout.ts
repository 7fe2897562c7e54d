import type { RolloutRef } from '../../model/batch-request.js';
import { isByHand, placeOf } from '../../model/batch-request.js';
import { createAllowance } from '../../platform/waits/allowance.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { turnsOf } from '../../model/journal/calls.js';
import { openTokens, waitingOf } from '../../model/journal/standing.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { emptyTrajectory } from '../../model/journal/trajectory.js';
import { waitingText } from '../../model/workflow-safe/waiting.js';
import type { FinishRollout } from '../contract.js';
import type { Body, Dependencies } from '../dependencies.js';
import { journalLost } from '../playing.js';
import { namesOf } from '../record-fault.js';
import { withLease } from '../lease.js';
import type { Play } from '../play-from-journal.js';
import { playFromJournal } from '../play-from-journal.js';
import { factsOf, pageOf, resultOf, unlistedOf } from '../report.js';
import { closeBatch } from './closing.js';
import { commonMs } from '../../platform/waits/common-clock.js';

/** An end does not wait for turns in progress, because it is short and they may be long. */
const AT_ONCE = createAllowance(Infinity);

/**
 * Ends a rollout that its turns did not end: timeout, stop, cancellation, a fault. Also closes the batch of one of a
 * rollout started by hand.
 */
export const finishRollout: Body<'finishRollout'> = async ([input], running) => {
  const { store, attempt } = running;
  const unlisted = unlistedOf(running);
  const { batch_id, row, repeat } = placeOf(input.rollout, attempt.workflow_id);
  const ref = { batch_id, row, repeat };
  const is_batch = isByHand(input.rollout);
  if (is_batch && (await store.findRequest(batch_id)) === null) {
    // It was never planned: there is no journal to end, and no batch to close.
    const { stop_reason, failure } = input;
    const result = {
      ...resultOf(ref, emptyTrajectory()),
      stop_reason: stop_reason ?? ('failed' as const),
    };
    return { result, failure, facts: null, batch: null, ...unlisted };
  }
  const by = { activity: 'finishRollout', run: attempt.run_id };
  const end = { by, play: () => Promise.resolve(), otherwise: endAs(input, { ref, store }) };
  const trajectory = await withLease({ ...running, ref, folds: AT_ONCE }, (lease) =>
    playFromJournal(lease, { ...running, ...end }),
  );
  const stopped = input.stop_reason === 'stopped';
  const known = factsOf(trajectory);
  const failure = trajectory.end?.failure ?? null;
  return {
    result: resultOf(ref, trajectory),
    failure: failure && { type: failure.type, message: failure.message },
    facts: known && { ...known, ...pageOf(rolloutId(ref), running) },
    ...unlisted,
    batch: is_batch ? await closeBatch([{ batch_id, stopped }], running) : null,
  };
};

const REASONS = {
  timeout: { type: 'TimedOut', message: 'rollout_timeout passed' },
  stopped: { type: 'Stopped', message: 'the rollout was stopped' },
  cancelled: { type: 'Cancelled', message: 'the rollout was cancelled' },
  failed: { type: 'Failed', message: 'the rollout failed' },
} as const;

function endAs(
  { stop_reason, failure }: FinishRollout,
  { ref, store }: { ref: RolloutRef } & Pick<Dependencies, 'store'>,
): NonNullable<Play['otherwise']> {
  return (trajectory) => {
    const turn = turnsOf(trajectory).length;
    // The workflow has seen an end, and there is no time left to reach it again.
    if (stop_reason === null) {
      const { type, message } = journalLost(ref, { lacks: 'its end', store });
      return { stop_reason: 'failed', failure: { type, message, turn } };
    }
    const { type, message } = failure ?? REASONS[stop_reason];
    const waited = stop_reason === 'timeout' ? `${message}; ${lastWait(trajectory)}` : message;
    return { stop_reason, failure: { type, message: waited, turn } };
  };
}

/** Tokens are journalled four times a second, so a stream that wrote within this time still flows. */
const FLOWS_S = 5;

/** The call, how often and since when it was tried, and the last answer, all from the journal. */
function lastWait(trajectory: Trajectory): string {
  const { standing } = trajectory;
  const { asks, moved_at } = standing;
  const open_tokens = openTokens(standing);
  const now_s = commonMs() / 1000;
  const isStreaming = asks === 'generation' && open_tokens > 0 && now_s - (moved_at ?? 0) < FLOWS_S;
  if (isStreaming) return `the policy was generating: ${open_tokens} tokens of its turn so far`;
  // However short its silence: the last line may even be younger than this clock.
  const silent_s = -Infinity;
  const waiting = waitingOf(standing, { names: namesOf(trajectory), now_s, silent_s });
  return waiting === null ? 'it had not begun' : `it waited for ${waitingText(waiting)}`;
}
