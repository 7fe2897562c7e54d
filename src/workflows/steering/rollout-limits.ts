import { condition, setHandler, workflowInfo } from '@temporalio/workflow';
import type { RolloutPlan } from '../../activities/contract.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { LimitsChange, TurnLimits } from '../../model/workflow-safe/limits.js';
import { limitsProblem, rolloutTimeoutMs, turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { failWith } from '../ending.js';
import { LIMITS_MEMO, TIMEOUT_MEMO, limitsSignal, setLimitsUpdate } from './messages.js';

/** Limits of a rollout that change while it runs, by its own update or by its batch. */
export interface RolloutLimits {
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
  /** Updates are rejected from here on. */
  close(): void;
}

/** `before`: what an earlier run of this rollout received. */
export function handleLimitUpdates(before: LimitsChange | null): RolloutLimits {
  let changed = before ?? limitsOfBatch();
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
  const checkOpen = (): void => {
    if (closed) throw refusal('the rollout is being finished');
  };

  setHandler(limitsSignal, (limits) => {
    if (limitsProblem(limits) === null) change(limits);
  });
  setHandler(
    setLimitsUpdate,
    async (limits) => {
      change(limits);
      await condition(() => plan !== null || closed);
      checkOpen();
      if (plan === null) throw refusal('the rollout was not opened');
      return { ...plan.limits, ...changed };
    },
    {
      validator: (limits) => {
        checkOpen();
        refuse(limitsProblem(limits));
      },
    },
  );
  return {
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
    close: () => {
      closed = true;
    },
  };
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

/**
 * `rollout_timeout` before there is a plan: changed, or from the batch, or, started by hand, from its own input, which
 * nobody has checked. null: the workflow does not know it.
 */
export function timeoutToOpenMs(input: unknown, changed: LimitsChange): number | null {
  const { rollout_timeout = workflowInfo().memo?.[TIMEOUT_MEMO] } = Object(input) as {
    rollout_timeout?: unknown;
  };
  const change = { rollout_timeout } as LimitsChange;
  const given = limitsProblem(change) === null ? rolloutTimeoutMs(change) : null;
  return rolloutTimeoutMs(changed) ?? given;
}

/** For validators: `problem` is the problem, or null. */
export function refuse(problem: string | null): void {
  if (problem !== null) throw refusal(problem);
}

export const refusal = (message: string): Error => failWith({ type: 'UpdateRefused', message });
