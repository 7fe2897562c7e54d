import { condition, setHandler } from '@temporalio/workflow';
import type { BatchPlan } from '../../activities/contract.js';
import type { Limits, LimitsChange } from '../../model/workflow-safe/limits.js';
import { limitsProblem, maxInFlightProblem } from '../../model/workflow-safe/limits.js';
import { setLimitsUpdate, setMaxInFlightUpdate } from './messages.js';
import { refusal, refuse } from './rollout-limits.js';
import type { RolloutRunner, Steering } from '../children/run-rollouts.js';

/** The updates of a batch. They wait until it is planned, and are rejected once it is closing. */
export interface BatchSteering {
  running(batch: { plan: BatchPlan; run: RolloutRunner }): void;
  closing(): void;
}

export function steerBatch(): BatchSteering {
  let run: RolloutRunner | null = null;
  let limits: Limits | null = null;
  let closed = false;

  const checkOpen = (): void => {
    if (closed) throw refusal('the batch is being closed');
  };
  const running = async (update: Steering): Promise<{ run: RolloutRunner; limits: Limits }> => {
    const isPlanning = run === null;
    await condition(() => (run !== null && limits !== null) || closed);
    checkOpen();
    if (run === null || limits === null) throw refusal('the batch was not planned');
    // The validator had no run to check this with.
    if (isPlanning) refuse(run.roomProblem(update));
    return { run, limits };
  };

  setHandler(
    setMaxInFlightUpdate,
    async ({ max_in_flight }) => {
      (await running({ max_in_flight })).run.setMaxInFlight(max_in_flight);
      return { max_in_flight };
    },
    {
      validator: (input: { max_in_flight: number }) => {
        checkOpen();
        refuse(maxInFlightProblem(input));
        if (run !== null) refuse(run.roomProblem(input));
      },
    },
  );
  setHandler(
    setLimitsUpdate,
    async (change) => {
      const now = await running({ limits: change });
      now.run.setLimits(change);
      limits = { ...now.limits, ...change };
      return limits;
    },
    {
      validator: (input: LimitsChange) => {
        checkOpen();
        refuse(limitsProblem(input));
        if (run !== null) refuse(run.roomProblem({ limits: input }));
      },
    },
  );
  return {
    running: (batch) => {
      ({ run } = batch);
      ({ limits } = batch.plan);
    },
    closing: () => {
      closed = true;
    },
  };
}
