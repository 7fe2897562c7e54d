import { condition, setHandler, workflowInfo } from '@temporalio/workflow';
import type { RolloutPlan } from '../../activities/contract.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { LimitsChange, TurnLimits } from '../../model/workflow-safe/limits.js';
import { limitsProblem, rolloutTimeoutMs, turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { failWith } from '../ending.js';
import { LIMITS_MEMO, TIMEOUT_MEMO, limitsSignal, setLimitsUpdate } from './messages.js';

/** Limits of a rollout that change while it runs, by its own update or by its batch. */
export interface RolloutLimits {
  change(limits: LimitsChange): void;
  /** `rollout_timeout` with these changes before there is a plan; null: nobody knows it. */
  timeoutToOpenMs(given: LimitsChange): number | null;
  /** Calls back with the timeout: now if it is known before there is a plan, and on every change. */
  whenTimeoutChanges(limitTo: (timeout_ms: number) => void): void;
  /**
   * True if the limit that failed the opening has changed since. Then another attempt may succeed in the remaining
   * time.
   */
  mayOpenAgain(fault: string, start: { given: LimitsChange; started_at: number }): boolean;
  /** From here on updates are answered, and the timeout is known. */
  planned(plan: RolloutPlan): void;
  /** `rollout_timeout`, from the first run's start. */
  timeoutMs(plan: RolloutPlan): number;
  /** For the next activity of a turn; null: nothing was changed. */
  ofTurns(): TurnLimits | null;
  /** For the next run. */
  changed(): LimitsChange;
  /** null: not yet planned. */
  plan(): RolloutPlan | null;
  /** Changes are rejected from here on. */
  close(): void;
  isClosed(): boolean;
}

/** `requested`: `rollout_timeout` as far as it is known before there is a plan, which nobody has checked. */
export function createLimits(before: LimitsChange, requested: unknown): RolloutLimits {
  let changed = before;
  let plan: RolloutPlan | null = null;
  let limitTo: (timeout_ms: number) => void = () => undefined;
  let closed = false;
  let timer_ms: number | null = null;

  const moveTimer = (timeout_ms: number | null): void => {
    if (timeout_ms === null || timeout_ms === timer_ms) return;
    timer_ms = timeout_ms;
    limitTo(timeout_ms);
  };
  const timeoutMs = (now: RolloutPlan): number =>
    rolloutTimeoutMs(changed) ?? toMs(now.limits.rollout_timeout);
  const change = (limits: LimitsChange): void => {
    if (closed) return;
    changed = { ...changed, ...limits };
    moveTimer(rolloutTimeoutMs(limits));
  };
  return {
    change,
    timeoutToOpenMs: (given) => rolloutTimeoutMs(given) ?? requestedMs(requested),
    whenTimeoutChanges: (callback) => {
      limitTo = callback;
      timer_ms = null;
      moveTimer(plan === null ? rolloutTimeoutMs(changed) : timeoutMs(plan));
    },
    mayOpenAgain: (fault, start) => isWorthOpening(fault, { ...start, changed }),
    planned: (now) => {
      plan = now;
      moveTimer(timeoutMs(now));
    },
    timeoutMs,
    ofTurns: () => turnLimitsOf(changed),
    changed: () => changed,
    plan: () => plan,
    close: () => {
      closed = true;
    },
    isClosed: () => closed,
  };
}

/**
 * Those of workflow `rollout`, which its own update and its batch's signal change. `before`: what an earlier run of it
 * received; `input`: its raw input.
 */
export function handleLimitUpdates(before: LimitsChange | null, input: unknown): RolloutLimits {
  const { rollout_timeout = workflowInfo().memo?.[TIMEOUT_MEMO] } = Object(input) as {
    rollout_timeout?: unknown;
  };
  const limits = createLimits(before ?? limitsOfBatch(), rollout_timeout);
  const checkOpen = (): void => {
    if (limits.isClosed()) throw refusal('the rollout is being finished');
  };
  setHandler(limitsSignal, (change) => {
    if (limitsProblem(change) === null) limits.change(change);
  });
  setHandler(
    setLimitsUpdate,
    async (change) => {
      limits.change(change);
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

function isWorthOpening(
  fault: string,
  {
    given,
    changed,
    started_at,
  }: { given: LimitsChange; changed: LimitsChange; started_at: number },
): boolean {
  if (changed === given) return false;
  const deadline = started_at + (rolloutTimeoutMs(changed) ?? 0);
  return fault === 'TimedOut' ? Date.now() < deadline : fault === 'PromptTooLong';
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

/** For validators: `problem` is the problem, or null. */
export function refuse(problem: string | null): void {
  if (problem !== null) throw refusal(problem);
}

export const refusal = (message: string): Error => failWith({ type: 'UpdateRefused', message });
