import { condition, setHandler } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';
import type { Limits, LimitsChange } from '../../model/workflow-safe/limits.js';
import { limitsProblem, maxInFlightProblem } from '../../model/workflow-safe/limits.js';
import { announceLimits } from './announce-limits.js';
import { setLimitsUpdate, setMaxInFlightUpdate } from './messages.js';
import { refusal, refuse } from './rollout-limits.js';
import type { RolloutRunner, Steering } from '../children/run-rollouts.js';

/** The updates of a batch. They wait until it is planned, and are rejected once it is closing. */
export interface BatchSteering {
  running(batch: { plan: BatchPlan; run: RolloutRunner }): void;
  closing(): void;
}

interface SteeredBatch {
  run: RolloutRunner;
  batch_id: string;
  /** In force. */
  limits: Limits;
}

export function steerBatch(): BatchSteering {
  let batch: SteeredBatch | null = null;
  let closed = false;

  const isOver = (): Error => refusal('the batch is being closed');
  const checkOpen = (): void => {
    if (closed) throw isOver();
  };
  const running = async (update: Steering): Promise<SteeredBatch> => {
    const isPlanning = batch === null;
    await condition(() => batch !== null || closed);
    checkOpen();
    if (batch === null) throw refusal('the batch was not planned');
    // The validator had no run to check this with.
    if (isPlanning) refuse(batch.run.roomProblem(update));
    return batch;
  };
  const check = (problem: string | null, update: Steering): void => {
    checkOpen();
    refuse(problem);
    if (batch !== null) refuse(batch.run.roomProblem(update));
  };
  const announce = announceLimits({ isClosed: () => closed, refusal: isOver });

  setHandler(
    setMaxInFlightUpdate,
    async ({ max_in_flight }) => {
      (await running({ max_in_flight })).run.setMaxInFlight(max_in_flight);
      return { max_in_flight };
    },
    {
      validator: (input: { max_in_flight: number }) => {
        check(maxInFlightProblem(input), input);
      },
    },
  );
  setHandler(
    setLimitsUpdate,
    async (change) => {
      const now = await running({ limits: change });
      await announce({ batch_id: now.batch_id, limits: change });
      now.run.setLimits(change);
      now.limits = { ...now.limits, ...change };
      return now.limits;
    },
    {
      validator: (change: LimitsChange) => {
        check(limitsProblem(change), { limits: change });
      },
    },
  );
  return {
    running: ({ plan: { batch_id, limits }, run }) => {
      batch = { run, batch_id, limits };
    },
    closing: () => {
      closed = true;
    },
  };
}
