import { condition, setHandler } from '@temporalio/workflow';
import type { BatchPlan } from '../activities/contract.js';
import type { Limits } from '../model/limits.js';
import { limitsProblem, maxInFlightProblem } from './limits-change.js';
import { setLimitsUpdate, setMaxInFlightUpdate } from './messages.js';
import { refusal, refuse } from './rollout-limits.js';
import type { RolloutRunner } from './run-rollouts.js';

/** The updates of a batch. They wait until it is planned, and are rejected once it is being closed. */
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
  const running = async (): Promise<{ run: RolloutRunner; limits: Limits }> => {
    await condition(() => (run !== null && limits !== null) || closed);
    checkOpen();
    if (run === null || limits === null) throw refusal('the batch was not planned');
    return { run, limits };
  };

  setHandler(
    setMaxInFlightUpdate,
    async ({ max_in_flight }) => {
      (await running()).run.setMaxInFlight(max_in_flight);
      return { max_in_flight };
    },
    {
      validator: (input) => {
        checkOpen();
        refuse(maxInFlightProblem(input));
      },
    },
  );
  setHandler(
    setLimitsUpdate,
    async (change) => {
      const now = await running();
      now.run.setLimits(change);
      limits = { ...now.limits, ...change };
      return limits;
    },
    {
      validator: (input) => {
        checkOpen();
        refuse(limitsProblem(input));
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
