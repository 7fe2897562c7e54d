import {
  CancellationScope,
  condition,
  isCancellation,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';
import type { GroupsAnswer, GroupsRequest } from '../../model/workflow-safe/groups.js';
import {
  groupsAtOnce,
  groupsProblem,
  mostGroups,
  waitMs,
} from '../../model/workflow-safe/groups.js';
import { foldGroups } from '../activity-options.js';
import { leavesStopped } from '../children/min-k.js';
import { failWith, failureOf } from '../ending.js';
import { groupsRoomProblem } from './event-budget.js';
import { groupsUpdate } from './messages.js';
import { refuse } from './rollout-limits.js';

/** Update `groups` of a batch: groups in the order in which they end, an order that never changes. */
export interface HandOut {
  planned(plan: BatchPlan): void;
  /** A row that was told before is no news. */
  ended: (rows: number[]) => void;
  /** What is not handed out by now is in the result's files. */
  closing(): void;
}

/** `isStopped`: was the batch? Members that were never started are closed so. */
export function handOutGroups(isStopped: () => boolean): HandOut {
  const ended = new Set<number>();
  /** By their first place: whoever asks again is given the same. */
  const answers = new Map<number, Promise<GroupsAnswer>>();
  const folding = new CancellationScope();
  let plan: BatchPlan | null = null;
  let closed = false;

  const fold = async (from: number, now: BatchPlan): Promise<GroupsAnswer> => {
    const { batch_id, num_repeats, min_k } = now;
    const rows = [...ended].slice(from, from + mostGroups(num_repeats));
    const stopped = isStopped() || leavesStopped(min_k?.k ?? null);
    const input = { batch_id, from, rows, stopped };
    const { file } = await folding.run(() => foldGroups(input));
    return { from, to: from + rows.length, file, done: false };
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
    (request) => answer(request).catch((error: unknown) => unlessCancelled(error, request)),
    {
      validator: (request: GroupsRequest) => {
        refuse(groupsProblem(request));
        refuse(tooFarProblem(request, ended.size));
        const left = plan === null ? 1 : 1 - ended.size / plan.samples;
        refuse(groupsRoomProblem(workflowInfo(), left));
      },
      // Closing answers those that wait; one that comes as the batch fails has its failure.
      unfinishedPolicy: 'ABANDON',
    },
  );
  return {
    planned: (now) => {
      plan = now;
    },
    ended: (rows) => {
      for (const row of rows) ended.add(row);
    },
    closing: () => {
      closed = true;
      folding.cancel();
    },
  };
}

const tooFarProblem = ({ after = 0 }: GroupsRequest, ended: number): string | null =>
  after <= ended
    ? null
    : `after: expected at most ${ended}, as many groups as have ended, got ${after}`;

/** A batch that is cancelled, and a fold that the closing overtakes, give no more. */
function unlessCancelled(error: unknown, { after: from = 0 }: GroupsRequest): GroupsAnswer {
  if (!isCancellation(error)) throw failWith(failureOf(error));
  return { from, to: from, file: null, done: true };
}
