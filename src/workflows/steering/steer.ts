import { condition, setHandler } from '@temporalio/workflow';
import type { LimitsChange, Limits } from '../../model/workflow-safe/limits.js';
import { limitsProblem, maxInFlightProblem } from '../../model/workflow-safe/limits.js';
import type { Steered } from '../children/run-rollouts.js';
import { refusal, refuse } from '../ending.js';
import { announceLimits } from './announce-limits.js';
import { setLimitsUpdate, setMaxInFlightUpdate } from './messages.js';

interface Planned {
  batch_id: string;
  limits: Limits;
}

type Running = Steered & Planned;

/**
 * Updates `set_max_in_flight` and `set_limits` of a batch or a stream. `over`: why they are rejected at its end. `before`:
 * the limits that an earlier run has changed.
 */
export function steer(over: string, before: LimitsChange = {}) {
  let changed = before;
  let running: Running | null = null;
  let closed = false;
  const isOver = (): Error => refusal(over);
  const announce = announceLimits(() => closed, isOver);
  /** Waits until it is planned. */
  const steered = async (update: Update): Promise<Running> => {
    const isPlanning = running === null;
    await condition(() => running !== null || closed);
    if (running === null || closed) throw isOver();
    // The validator had nothing to check this with.
    if (isPlanning) refuse(running.roomProblem(update));
    return running;
  };
  const check = (problem: string | null, update: Update): void => {
    if (closed) throw isOver();
    refuse(problem ?? running?.roomProblem(update) ?? null);
  };
  setHandler(
    setMaxInFlightUpdate,
    async ({ max_in_flight }) => {
      (await steered({ max_in_flight })).setMaxInFlight(max_in_flight);
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
    async (limits) => {
      const { batch_id, ...now } = await steered({ limits });
      await announce({ batch_id, limits });
      changed = { ...changed, ...limits };
      now.setLimits(limits);
      return { ...now.limits, ...changed };
    },
    {
      validator: (limits: LimitsChange) => {
        check(limitsProblem(limits), { limits });
      },
    },
  );
  return {
    /** From here on they are answered. */
    running: (now: Steered, { batch_id, limits }: Planned): void => {
      running = { ...now, batch_id, limits };
    },
    /** From here on they are rejected. */
    closing: (): void => {
      closed = true;
    },
    limits: () => changed,
  };
}

type Update = Parameters<Steered['roomProblem']>[0];
