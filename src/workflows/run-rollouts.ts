import type { ChildWorkflowHandle } from '@temporalio/workflow';
import {
  CancellationScope,
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  condition,
  isCancellation,
  startChild,
} from '@temporalio/workflow';
import type { RolloutResult, Tally } from '../activities/contract.js';
import type { RolloutRef } from '../model/batch-request.js';
import type { StopReason } from '../model/journal.js';
import type { LimitsChange } from '../model/limits.js';
import type { Part } from '../model/slices.js';
import { LIMITS_MEMO, limitsSignal, stopSignal } from './messages.js';
import type { rollout } from './rollout.js';
import { countGroups } from './min-k.js';
import { createStartInTurn } from './start-in-turn.js';

type RolloutHandle = ChildWorkflowHandle<typeof rollout>;

export interface Run {
  batch_id: string;
  rows: Part;
  num_repeats: number;
  /** How many may run at once, to begin with. */
  max_in_flight: number;
  onChange: (tally: Tally) => void;
  /** Valid rollouts that make a group complete; null: nobody asks. */
  k: number | null;
  /** Every group is complete. */
  onSatisfied: () => void;
}

export interface RolloutRunner {
  /** Starts rollouts in input order; resolves when none runs any more, whatever ended them. */
  finished: Promise<void>;
  /** No rollout starts any more, and those that run are told to stop. */
  stop: () => void;
  setMaxInFlight: (maxInFlight: number) => void;
  /** For rollouts that run and for those that start later. */
  setLimits: (change: LimitsChange) => void;
}

/** Runs the rollouts of some rows as child workflows. A failed child is data: it never fails its siblings. */
export function runRollouts({ onChange, ...run }: Run): RolloutRunner {
  const running = new Set<RolloutHandle>();
  const tally: Tally = { done: 0, running: 0, valid: 0, turns: 0, tokens: 0, reward_sum: 0 };
  let { max_in_flight } = run;
  let limits: LimitsChange | null = null;
  let stopped = false;
  const countValid = countGroups(run);
  const startInTurn = createStartInTurn(() => stopped);

  const play = async (ref: RolloutRef): Promise<void> => {
    tally.running += 1;
    onChange({ ...tally });
    let child: RolloutHandle | null = null;
    try {
      const started = await startInTurn(async () => {
        const told = limits;
        return { told, handle: await startRollout({ ref, num_repeats: run.num_repeats, told }) };
      });
      child = started.handle;
      running.add(child);
      if (stopped) await child.signal(stopSignal);
      else if (limits !== null && limits !== started.told) await child.signal(limitsSignal, limits);
      if (count(tally, (await child.result()) as RolloutResult)) countValid(ref.row);
    } catch {
      // Whatever ended it is in its journal; a child that could not even start is closed without one.
    } finally {
      if (child !== null) running.delete(child);
      tally.running -= 1;
      tally.done += 1;
      onChange({ ...tally });
    }
  };

  const playAll = async (): Promise<void> => {
    try {
      for (const ref of rolloutsOf(run)) {
        await condition(() => stopped || tally.running < max_in_flight);
        if (stopped) break;
        void play(ref);
      }
    } catch (error) {
      if (!isCancellation(error)) throw error;
    } finally {
      await CancellationScope.nonCancellable(() => condition(() => tally.running === 0));
    }
  };

  return {
    finished: playAll(),
    stop: () => {
      stopped = true;
      for (const child of running) void child.signal(stopSignal).catch(() => undefined);
    },
    setMaxInFlight: (now) => {
      max_in_flight = now;
    },
    setLimits: (change) => {
      limits = { ...limits, ...change };
      for (const child of running) void child.signal(limitsSignal, change).catch(() => undefined);
    },
  };
}

function* rolloutsOf({
  batch_id,
  rows,
  num_repeats,
}: Pick<Run, 'batch_id' | 'rows' | 'num_repeats'>): Generator<RolloutRef> {
  for (let row = rows.first; row <= rows.last; row++) {
    for (let repeat = 0; repeat < num_repeats; repeat++) yield { batch_id, row, repeat };
  }
}

function startRollout({
  ref,
  num_repeats,
  told,
}: {
  ref: RolloutRef;
  num_repeats: number;
  told: LimitsChange | null;
}): Promise<RolloutHandle> {
  return startChild<typeof rollout>('rollout', {
    args: [ref],
    workflowId: `${ref.batch_id}/${ref.row}-${ref.repeat}`,
    workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    staticSummary: `sample ${ref.row}${num_repeats > 1 ? `, repeat ${ref.repeat} of ${num_repeats}` : ''}`,
    ...(told !== null && { memo: { [LIMITS_MEMO]: told } }),
  });
}

/** Returns whether it was valid. */
function count(
  tally: Tally,
  { stop_reason, total_reward, turn_count, total_tokens }: RolloutResult,
): boolean {
  tally.turns += turn_count;
  tally.tokens += total_tokens;
  if (!VALID.has(stop_reason)) return false;
  tally.valid += 1;
  tally.reward_sum += total_reward;
  return true;
}

const VALID: ReadonlySet<StopReason> = new Set(['terminated', 'truncated', 'max_turns']);
