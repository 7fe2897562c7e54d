import { condition, patched, setHandler, workflowInfo } from '@temporalio/workflow';
import type { RolloutPlan } from '../../activities/contract.js';
import type { LimitsChange, TurnLimits } from '../../model/workflow-safe/limits.js';
import { limitsProblem, rolloutTimeoutMs, turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { failWith } from '../ending.js';
import { LIMITS_MEMO, limitsSignal, setLimitsUpdate } from './messages.js';

/** Limits of a rollout that change while it runs: by its own update, or by its batch. */
export interface RolloutLimits {
  /** A timeout that was changed is told before there is a plan, which brings the request's. */
  starting(limitTo: (timeout_ms: number) => void): void;
  /** Has what ended the start been changed since it was told? Then it may be tried again, in the time that is left. */
  mayStartAgain(fault: string, start: { told: LimitsChange; started_at: number }): boolean;
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
  let told_ms: number | null = null;

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
      change(limits);
      await condition(() => plan !== null || closed);
      checkOpen();
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
    starting: (tell) => {
      limitTo = (timeout_ms) => {
        if (!patched(WHILE_STARTING)) return;
        told_ms = timeout_ms;
        tell(timeout_ms);
      };
      const timeout_ms = rolloutTimeoutMs(changed);
      if (timeout_ms !== null) limitTo(timeout_ms);
    },
    mayStartAgain: (fault, start) => isWorthStarting(fault, { ...start, changed }),
    planned: (now, tell) => {
      plan = now;
      limitTo = tell;
      if (told_ms !== timeoutMs(now)) limitTo(timeoutMs(now));
    },
    timeoutMs,
    ofTurns: () => turnLimitsOf(changed),
    changed: () => changed,
    close: () => {
      closed = true;
    },
  };
}

/** Recorded histories in which limits do not reach a rollout that starts still replay. */
const WHILE_STARTING = 'limits-while-starting';

function isWorthStarting(
  fault: string,
  { told, changed, started_at }: { told: LimitsChange; changed: LimitsChange; started_at: number },
): boolean {
  if (changed === told) return false;
  const deadline = started_at + (rolloutTimeoutMs(changed) ?? 0);
  const isWorth = fault === 'TimedOut' ? Date.now() < deadline : fault === 'PromptTooLong';
  return isWorth && patched(WHILE_STARTING);
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
