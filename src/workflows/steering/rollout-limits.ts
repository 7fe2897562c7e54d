import { condition, setHandler, workflowInfo } from '@temporalio/workflow';
import type { RolloutPlan } from '../../activities/contract.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { limitsProblem, rolloutTimeoutMs, turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { refusal, refuse } from '../ending.js';
import { announceLimits } from './announce-limits.js';
import { LIMITS_MEMO, TIMEOUT_MEMO, limitsSignal, setLimitsUpdate } from './messages.js';

export interface LimitsSoFar {
  limits: LimitsChange;
  /**
   * When the first run began, on the server's clock: after a delay of its start, and anew after a reset. It moves by the
   * time in which no replica served the rollout, since the deadline counts from there.
   */
  started_at: number;
}

export type RolloutLimits = ReturnType<typeof createLimits>;

/**
 * Limits of a rollout that change while it runs, by its own update or by its batch; its deadline is one of them.
 * `requested`: `rollout_timeout` as far as it is known before there is a plan, which nobody has checked.
 */
export function createLimits(before: LimitsSoFar, requested: unknown) {
  let { limits: changed, started_at } = before;
  let plan: RolloutPlan | null = null;
  let closed = false;
  let limitTo: (left_ms: number | null) => void = () => undefined;
  /** The timer's length; null: there is none, because the activity that opens the rollout watches the time. */
  let timer_ms: number | null = null;
  let unserved_since: number | null = null;
  const timeoutMs = (): number | null =>
    rolloutTimeoutMs(changed) ?? (plan && toMs(plan.limits.rollout_timeout));
  const deadlineOf = (timeout_ms: number | null): number | null =>
    timeout_ms === null ? null : started_at + timeout_ms;
  const setTimer = ({ anyway = false } = {}): void => {
    const timeout_ms = timeoutMs();
    if (timeout_ms === null || (timeout_ms === timer_ms && !anyway)) return;
    timer_ms = timeout_ms;
    limitTo(leftUntil(started_at + timeout_ms));
  };

  return {
    change: (limits: LimitsChange): void => {
      if (closed) return;
      changed = { ...changed, ...limits };
      setTimer();
    },
    /** Until the deadline, at least 1; Infinity: there is no plan yet, and nobody here knows it. */
    leftMs: () => leftUntil(deadlineOf(timeoutMs() ?? requestedMs(requested)) ?? Infinity),
    /** From the beginning, without the time in which no replica served it. */
    spentMs: () => Math.max(0, Date.now() - started_at),
    /** Calls back with the time left whenever the deadline is set or moves, and with null: there is none meanwhile. */
    onDeadline: (callback: typeof limitTo): void => {
      limitTo = callback;
      setTimer({ anyway: true });
    },
    /** Time in which no replica serves does not count against the rollout. */
    unserved: (isUnserved: boolean): void => {
      const since = unserved_since;
      unserved_since = isUnserved ? (since ?? Date.now()) : null;
      if (isUnserved && since === null) limitTo(null);
      if (isUnserved || since === null) return;
      started_at += Date.now() - since;
      setTimer({ anyway: true });
    },
    /** True if the limit that failed an opening under the limits `given` has changed since, and there is time left. */
    mayOpenAgain: (fault: string, given: LimitsChange) =>
      changed !== given &&
      (fault === 'TimedOut'
        ? Date.now() < (deadlineOf(timeoutMs()) ?? 0)
        : fault === 'PromptTooLong'),
    /** From here on updates are answered, and the timeout is known. */
    planned: (now: RolloutPlan): void => {
      plan = now;
      setTimer();
    },
    /** For the next activity of a turn; null: nothing was changed. */
    ofTurns: () => turnLimitsOf(changed),
    changed: () => changed,
    soFar: (): LimitsSoFar => ({ limits: changed, started_at }),
    /** null: not yet planned. */
    plan: () => plan,
    /** Changes are rejected from here on. */
    close: (): void => {
      closed = true;
    },
    isClosed: () => closed,
  };
}

const leftUntil = (deadline: number): number => Math.max(1, deadline - Date.now());

/**
 * Those of workflow `rollout`, which its own update and its batch's signal change. `before`: of an earlier run of it;
 * `input`: its raw input.
 */
export function handleLimitUpdates(before: LimitsSoFar | null, input: unknown): RolloutLimits {
  const { rollout_timeout = workflowInfo().memo?.[TIMEOUT_MEMO] } = Object(input) as {
    rollout_timeout?: unknown;
  };
  const soFar = {
    limits: before?.limits ?? limitsOfBatch(),
    started_at: before?.started_at ?? workflowInfo().runStartTime.getTime(),
  };
  const limits = createLimits(soFar, rollout_timeout);
  const isOver = (): Error => refusal('the rollout is being finished');
  const checkOpen = (): void => {
    if (limits.isClosed()) throw isOver();
  };
  const announce = announceLimits(() => limits.isClosed(), isOver);
  setHandler(limitsSignal, (change) => {
    if (limitsProblem(change) === null) limits.change(change);
  });
  setHandler(
    setLimitsUpdate,
    async (change) => {
      const inForce = await announce({ rollout: input, limits: change });
      limits.change(change);
      if (inForce !== null) return { ...inForce, ...limits.changed() };
      await condition(() => limits.plan() !== null || limits.isClosed());
      checkOpen();
      const plan = limits.plan();
      if (plan === null) throw refusal('the rollout was not opened');
      return { ...plan.limits, ...limits.changed() };
    },
    {
      validator: (change) => {
        checkOpen();
        refuse(limitsProblem(change));
      },
    },
  );
  return limits;
}

/** A batch that was steered before it started this rollout passes limits in the memo, which costs no event. */
function limitsOfBatch(): LimitsChange {
  const limits = workflowInfo().memo?.[LIMITS_MEMO];
  return limitsProblem(limits) === null ? (limits as LimitsChange) : {};
}

/** From the batch, or, where it was started by hand, from its own input. null: the workflow does not know it. */
function requestedMs(rollout_timeout: unknown): number | null {
  const change = { rollout_timeout } as LimitsChange;
  return limitsProblem(change) === null ? rolloutTimeoutMs(change) : null;
}
