import {
  CancellationScope,
  CancelledFailure,
  getExternalWorkflowHandle,
} from '@temporalio/workflow';
import type { GroupInput, GroupNews } from '../activities/contract/stream.js';
import { groupOutcome } from '../model/workflow-safe/trained-reward.js';
import { endGroup } from './activity-options.js';
import { followParent } from './children/follow-parent.js';
import { NO_TALLY, runRollouts } from './children/run-rollouts.js';
import { checkGroupInput } from './steering/input-checks.js';
import { groupSignal } from './steering/messages.js';

/**
 * A group of a stream: its rollouts and their replacements. It outlives the stream's runs. Its outcome is put into the
 * store before the stream is signalled, so a stream that missed the signal finds it there.
 */
export async function rolloutGroup(input: GroupInput): Promise<GroupNews> {
  const { stream_id, group, num_repeats, max_replacements, filter, limits, heartbeat_timeout_ms } =
    checkGroupInput(input);
  const rewards: number[] = [];
  let untrained = 0;
  let tally = NO_TALLY;
  const run = runRollouts({
    batch_id: stream_id,
    rows: { first: group, last: group },
    num_repeats,
    max_in_flight: num_repeats,
    onChange: (now) => {
      tally = now;
    },
    onValid: (result) => {
      rewards.push(result.total_reward);
      if (result.untrained === true) untrained += 1;
    },
    k: null,
    max_replacements,
    heartbeat_timeout_ms,
  });
  const { isStopped } = followParent(run, { limits, tally: () => tally });
  await run.finished;

  const cancelled = CancellationScope.current().consideredCancelled;
  const outcome = groupOutcome(rewards, { num_repeats, filter, untrained });
  const { done: members, failures } = tally;
  const ended = { group, outcome, valid: rewards.length, members };
  const end = { ...ended, ...(failures !== undefined && { failures }) };
  const news = await CancellationScope.nonCancellable(async () => {
    // A stopped group has not ended: it continues when the stream does.
    const said: GroupNews =
      isStopped() || cancelled ? { group, outcome: null } : await endGroup({ stream_id, ...end });
    // A stream that does not run reads the outcome in the store later.
    await getExternalWorkflowHandle(stream_id)
      .signal(groupSignal, said)
      .catch(() => undefined);
    return said;
  });
  if (cancelled) throw new CancelledFailure('the group was cancelled');
  return news;
}
