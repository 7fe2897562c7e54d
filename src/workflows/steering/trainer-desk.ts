import { condition, isCancellation, setHandler } from '@temporalio/workflow';
import type { FailureFacts } from '../../activities/contract.js';
import type { NextStepAnswer, StepAsked } from '../../activities/contract/stream.js';
import {
  forgetProblem,
  stepAskedProblem,
  stepWaitMs,
} from '../../model/workflow-safe/stream/asked.js';
import type { Deliveries } from '../children/deliveries.js';
import type { Stream } from '../children/stream-state.js';
import { failWith, failureOf } from '../ending.js';
import { forgetUpdate, nextStepUpdate } from './messages.js';
import { refuse } from './rollout-limits.js';

/** Updates `next_step` and `forget` of a stream. */
export interface TrainerDesk {
  open(stream: Stream, deliveries: Deliveries): void;
  /** Does anybody wait for the next step? */
  isAsked(): boolean;
  /** Whoever waits for the next step is told that it does not come; once each. */
  fail(fault: FailureFacts): void;
  /** Until it is opened again, nobody is made to wait: they are told why. */
  close(why: string): void;
  reopen(): void;
}

interface Asking extends StepAsked {
  fault: FailureFacts | null;
}

/** `whyNot`: what the next step waits for. */
export function hearTrainers(whyNot: (stream: Stream) => string): TrainerDesk {
  const asking = new Set<Asking>();
  let opened: { stream: Stream; deliveries: Deliveries } | null = null;
  let closed: string | null = null;

  const nextStep = async (asked: StepAsked): Promise<NextStepAnswer> => {
    const until = Date.now() + stepWaitMs(asked);
    const left = (): number => Math.max(1, until - Date.now());
    await condition(() => opened !== null || closed !== null, left());
    if (opened === null) return { ready: false, why: closed ?? 'the stream is being planned' };
    const { stream, deliveries } = opened;
    checkAsked(asked, { stream, asking });
    const isPut = (): boolean => asked.step < stream.pacing().next_step;
    if (!isPut()) {
      const ask: Asking = { ...asked, fault: null };
      asking.add(ask);
      stream.asked(asked.version);
      try {
        await condition(() => isPut() || ask.fault !== null || closed !== null, left());
      } finally {
        asking.delete(ask);
        stream.touch();
      }
      if (ask.fault !== null) throw failWith(ask.fault);
      if (!isPut()) return { ready: false, why: closed ?? whyNot(stream) };
    }
    const rows = deliveries.rowsOf(asked.step);
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    rows.then(over, over);
    await condition(() => isOver, left());
    if (isOver) return { ready: true, ...(await rows) };
    return { ready: false, why: `the rows of step ${asked.step} are being written` };
  };

  const whenCancelled = (error: unknown): NextStepAnswer => {
    if (isCancellation(error)) return { ready: false, why: closed ?? 'the stream is cancelled' };
    return refused(error);
  };

  setHandler(nextStepUpdate, (asked) => nextStep(asked).catch(whenCancelled), {
    validator: (asked) => {
      refuse(stepAskedProblem(asked));
    },
  });
  setHandler(
    forgetUpdate,
    async ({ through }) => {
      await condition(() => opened !== null || closed !== null);
      if (opened === null) throw outOfOrder(closed ?? '');
      const { stream, deliveries } = opened;
      const { next_step } = stream.pacing();
      if (through >= next_step)
        throw outOfOrder(
          `through: expected a step that was delivered, at most ${next_step - 1}, got ${through}`,
        );
      if (through >= stream.now().kept_from) await deliveries.forget(through).catch(refused);
      stream.forgotten(through);
      return { kept_from: stream.now().kept_from };
    },
    {
      validator: (input) => {
        refuse(forgetProblem(input));
      },
    },
  );
  return {
    open: (stream, deliveries) => {
      opened = { stream, deliveries };
    },
    isAsked: () => asking.size > 0,
    fail: (fault) => {
      for (const ask of asking) ask.fault ??= fault;
      asking.clear();
    },
    close: (why) => {
      closed = why;
    },
    reopen: () => {
      closed = null;
    },
  };
}

function checkAsked(
  { step, version }: StepAsked,
  { stream, asking }: { stream: Stream; asking: ReadonlySet<Asking> },
): void {
  const { next_step, last_version } = stream.pacing();
  const { kept_from } = stream.now();
  if (step > next_step || step < kept_from) {
    const kept =
      kept_from < next_step ? `, or one that is kept (${kept_from} to ${next_step - 1})` : '';
    throw outOfOrder(`step: expected ${next_step}, the next one${kept}, got ${step}`);
  }
  if (step < next_step || version === undefined) return;
  if (last_version !== null && version < last_version)
    throw outOfOrder(
      `version: expected at least ${last_version}, that of the step before, got ${version}; a trainer that has gone back publishes its weights under a higher version`,
    );
  const other = [...asking].find((ask) => ask.version !== undefined && ask.version !== version);
  if (other !== undefined)
    throw outOfOrder(
      `version: step ${step} is being asked for with version ${other.version ?? ''}, got ${version}; one trainer at a time asks for a new step`,
    );
}

const outOfOrder = (message: string): Error => failWith({ type: 'StepOutOfOrder', message });

function refused(error: unknown): never {
  throw failWith(failureOf(error));
}
