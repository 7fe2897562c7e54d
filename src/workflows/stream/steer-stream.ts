import { condition, setHandler, workflowInfo } from '@temporalio/workflow';
import type { StreamGroups } from './stream-groups.js';
import type { Stream } from './stream-state.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { limitsProblem, maxInFlightProblem } from '../../model/workflow-safe/limits.js';
import { roomProblem } from '../steering/event-budget.js';
import { announceLimits } from '../steering/announce-limits.js';
import { setLimitsUpdate, setMaxInFlightUpdate } from '../steering/messages.js';
import { refusal, refuse } from '../steering/rollout-limits.js';

/** Updates `set_max_in_flight` and `set_limits` of a stream. */
export interface StreamSteering {
  open(stream: Stream, groups: StreamGroups): void;
  close(): void;
  /** Changed limits, for groups that start later. */
  limits: () => LimitsChange;
}

/** `before`: what an earlier run received. */
export function steerStream(before: LimitsChange): StreamSteering {
  let limits = before;
  let opened: { stream: Stream; groups: StreamGroups } | null = null;
  let closed = false;
  const isOver = (): Error => refusal('the stream is ending');
  const announce = announceLimits({ isClosed: () => closed, refusal: isOver });
  const running = async (): Promise<{ stream: Stream; groups: StreamGroups }> => {
    await condition(() => opened !== null || closed);
    if (opened === null || closed) throw isOver();
    return opened;
  };
  setHandler(
    setMaxInFlightUpdate,
    async ({ max_in_flight }) => {
      (await running()).stream.setMaxInFlight(max_in_flight);
      return { max_in_flight };
    },
    {
      validator: (input) => {
        refuse(maxInFlightProblem(input));
      },
    },
  );
  setHandler(
    setLimitsUpdate,
    async (change) => {
      const { stream, groups } = await running();
      await announce({ batch_id: stream.plan.stream_id, limits: change });
      limits = { ...limits, ...change };
      groups.setLimits(change);
      return { ...stream.plan.limits, ...limits };
    },
    {
      validator: (input) => {
        refuse(limitsProblem(input));
        if (opened !== null) refuse(roomProblem(workflowInfo(), runningOf(opened.stream).length));
      },
    },
  );
  return {
    open: (stream, groups) => {
      opened = { stream, groups };
    },
    close: () => {
      closed = true;
    },
    limits: () => limits,
  };
}

export const runningOf = (stream: Stream): number[] =>
  stream
    .pacing()
    .groups.filter(({ state }) => state === 'running')
    .map(({ group }) => group);

/** Places of the rollouts of running groups, without replacements. */
export const membersOf = (stream: Stream): [row: number, repeat: number][] =>
  runningOf(stream).flatMap((group) =>
    Array.from({ length: stream.settings().num_repeats }, (_, repeat): [number, number] => [
      group,
      repeat,
    ]),
  );
