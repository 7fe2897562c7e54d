import { condition, setHandler, workflowInfo } from '@temporalio/workflow';
import type { RolloutPlan } from '../activities/contract.js';
import type { LimitsChange, TurnLimits } from '../model/limits.js';
import { limitsProblem, rolloutTimeoutMs, turnLimitsOf } from './limits-change.js';
import { failWith } from './ending.js';
import { LIMITS_MEMO, limitsSignal, setLimitsUpdate } from './messages.js';

/** Limits of a rollout that change while it runs: by its own update, or by its batch. */
export interface RolloutLimits {
  /** From here on updates are answered. The timeout is told now and whenever it changes. */
  planned(plan: RolloutPlan, limitTo: (timeout_ms: number) => void): void;
  /** Of the rollout, from its first run's start. */
  timeoutMs(plan: RolloutPlan): number;
  /** For the next activity of a turn; null: nothing was changed. */
  ofTurns(): TurnLimits | null;
  /** For the run that goes on from here. */
  changed(): LimitsChange;
  /** Updates are rejected from here on. */
  close(): void;
}

/** `before`: what an earlier run of this rollout had heard. */
export function hearLimits(before: LimitsChange | null): RolloutLimits {
  let changed = before ?? limitsOfBatch();
  let plan: RolloutPlan | null = null;
  let limitTo: (timeout_ms: number) => void = () => undefined;
  let closed = false;

  const timeoutMs = (now: RolloutPlan): number => rolloutTimeoutMs(changed) ?? now.timeout_ms;
  const change = (limits: LimitsChange): void => {
    if (closed) return;
    changed = { ...changed, ...limits };
    const timeout_ms = rolloutTimeoutMs(limits);
    if (timeout_ms !== null) limitTo(timeout_ms);
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
      await condition(() => plan !== null || closed);
      checkOpen();
      change(limits);
      if (plan === null) throw refusal('the rollout was not started');
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
    planned: (now, tell) => {
      plan = now;
      limitTo = tell;
      limitTo(timeoutMs(now));
    },
    timeoutMs,
    ofTurns: () => turnLimitsOf(changed),
    changed: () => changed,
    close: () => {
      closed = true;
    },
  };
}

/** A batch that was steered before it started this rollout says so in the memo: that costs no event. */
function limitsOfBatch(): LimitsChange {
  const limits = workflowInfo().memo?.[LIMITS_MEMO];
  return limitsProblem(limits) === null ? (limits as LimitsChange) : {};
}

/** For validators: `problem` is what is wrong, or null. */
export function refuse(problem: string | null): void {
  if (problem !== null) throw refusal(problem);
}

export const refusal = (message: string): Error => failWith({ type: 'UpdateRefused', message });
