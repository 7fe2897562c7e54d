import {
  CancellationScope,
  condition,
  isCancellation,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';
import type { GroupsAnswer, GroupsRequest } from '../../model/workflow-safe/groups.js';
import { waitMs } from '../../model/workflow-safe/durations.js';
import { groupsAtOnce, groupsProblem, mostGroups } from '../../model/workflow-safe/groups.js';
import { foldGroups } from '../activity-options.js';
import { leavesStopped } from '../children/min-k.js';
import { failWith, failureOf, refuse } from '../ending.js';
import { groupsRoomProblem } from './event-budget.js';
import { groupsUpdate } from './messages.js';

/**
 * Update `groups` of a batch: groups in the order in which they end. That order never changes. `isStopped`: whether the
 * batch was stopped; members that were never started are closed accordingly.
 */
export function handOutGroups(isStopped: () => boolean) {
  const ended = new Set<number>();
  /** Answers by their first place: a repeated request gets the same answer. */
  const answers = new Map<number, Promise<GroupsAnswer>>();
  const folding = new CancellationScope();
  let plan: BatchPlan | null = null;
  let closed = false;

  const fold = async (from: number, now: BatchPlan): Promise<GroupsAnswer> => {
    const { batch_id, num_repeats, min_k } = now;
    const rows = [...ended].slice(from, from + mostGroups(num_repeats));
    const stopped = isStopped() || leavesStopped(min_k?.k ?? null);
    const input = { batch_id, from, rows, stopped };
    const files = await folding.run(() => foldGroups(input));
    return { from, to: from + rows.length, ...files, done: false };
  };
  const hasEnough = (from: number): boolean =>
    plan !== null && ended.size - from >= groupsAtOnce(plan.samples);

  const answer = async (request: GroupsRequest): Promise<GroupsAnswer> => {
    const { after: from = 0 } = request;
    await condition(() => closed || answers.has(from) || hasEnough(from), waitMs(request));
    let found = answers.get(from);
    if (found === undefined && plan !== null && !closed && ended.size > from) {
      found = fold(from, plan);
      answers.set(from, found);
      found.catch(() => answers.delete(from));
    }
    return (await found) ?? { from, to: from, file: null, done: closed };
  };

  setHandler(
    groupsUpdate,
    (request) =>
      // A cancelled batch, and a fold that the closing overtakes, return no more groups.
      answer(request).catch((error: unknown): GroupsAnswer => {
        if (!isCancellation(error)) throw failWith(failureOf(error));
        const { after: from = 0 } = request;
        return { from, to: from, file: null, done: true };
      }),
    {
      validator: (request: GroupsRequest) => {
        refuse(groupsProblem(request));
        refuse(tooFarProblem(request, ended.size));
        const left = plan === null ? 1 : 1 - ended.size / plan.samples;
        refuse(groupsRoomProblem(workflowInfo(), left));
      },
      // Closing answers waiting requests. A request that comes while the batch fails gets its failure.
      unfinishedPolicy: 'ABANDON',
    },
  );
  return {
    planned: (now: BatchPlan): void => {
      plan = now;
    },
    /** A row that was reported before is ignored. */
    ended: (rows: readonly number[]): void => {
      for (const row of rows) ended.add(row);
    },
    /** Groups that are not handed out by now are in the result's files. */
    closing: (): void => {
      closed = true;
      folding.cancel();
    },
  };
}

const tooFarProblem = ({ after = 0 }: GroupsRequest, ended: number): string | null =>
  after <= ended
    ? null
    : `after: expected at most ${ended}, as many groups as have ended, got ${after}`;
