import {
  CancellationScope,
  CancelledFailure,
  getExternalWorkflowHandle,
  setHandler,
} from '@temporalio/workflow';
import type { Tally } from '../activities/contract.js';
import type { GroupEnd, GroupInput, GroupNews } from '../activities/contract/stream.js';
import { limitsProblem } from '../model/workflow-safe/limits.js';
import { endGroup } from './activity-options.js';
import { runRollouts } from './children/run-rollouts.js';
import { checkGroupInput } from './steering/input-checks.js';
import {
  groupSignal,
  limitsSignal,
  onStop,
  sliceProgressQuery,
  tell,
} from './steering/messages.js';

/**
 * A group of a stream: its rollouts and their replacements. It outlives the stream's runs. Its outcome is put into the
 * store before the stream is signalled, so a stream that missed the signal finds it there.
 */
export async function rolloutGroup(input: GroupInput): Promise<GroupNews> {
  const { stream_id, group, num_repeats, max_replacements, filter, limits } =
    checkGroupInput(input);
  const rewards: number[] = [];
  let tally: Tally = { done: 0, running: 0, valid: 0, turns: 0, tokens: 0, reward_sum: 0 };
  let stopped = false;
  const run = runRollouts({
    batch_id: stream_id,
    rows: { first: group, last: group },
    num_repeats,
    max_in_flight: num_repeats,
    onChange: (now) => {
      tally = now;
    },
    onEnded: () => undefined,
    onValid: ({ total_reward }) => {
      rewards.push(total_reward);
    },
    k: null,
    max_replacements,
  });
  if (limits !== undefined) run.setLimits(limits);
  setHandler(sliceProgressQuery, () => tally);
  setHandler(limitsSignal, (change) => {
    if (limitsProblem(change) === null && run.roomProblem({ limits: change }) === null)
      run.setLimits(change);
  });
  onStop(() => {
    stopped = true;
    run.stop();
  });
  await run.finished;

  const cancelled = CancellationScope.current().consideredCancelled;
  const outcome = outcomeOf(rewards, { num_repeats, filter });
  const end = { group, outcome, valid: rewards.length, members: tally.done };
  const news = await CancellationScope.nonCancellable(async () => {
    // A stopped group has not ended: it continues when the stream does.
    const said: GroupNews =
      stopped || cancelled ? { group, outcome: null } : await endGroup({ stream_id, ...end });
    await told(stream_id, said);
    return said;
  });
  if (cancelled) throw new CancelledFailure('the group was cancelled');
  return news;
}

/** A baseline needs two. */
const LEAST_VALID = 2;

function outcomeOf(
  rewards: readonly number[],
  { num_repeats, filter }: Pick<GroupInput, 'num_repeats' | 'filter'>,
): GroupEnd['outcome'] {
  if (rewards.length < Math.min(LEAST_VALID, num_repeats)) return 'failed';
  const isFlat = rewards.every((reward) => reward === rewards[0]);
  return filter === 'zero_variance' && isFlat ? 'filtered' : 'complete';
}

/** A stream that does not run reads the outcome in the store later. */
async function told(stream_id: string, news: GroupNews): Promise<void> {
  const sent = getExternalWorkflowHandle(stream_id).signal(groupSignal, news);
  tell(sent);
  await sent.catch(() => undefined);
}
