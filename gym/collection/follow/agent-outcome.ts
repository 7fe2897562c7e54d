import { AgentSample } from '../../../src/model/agent/sample.js';
import { VALID_STOP_REASONS } from '../../../src/model/workflow-safe/stop-reasons.js';
import { failuresBefore } from '../../../src/model/journal/lives.js';
import { lastFault } from '../../../src/model/journal/standing.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';
import type { RunFailure } from './routing.js';

interface Ended {
  /** When it ended, in seconds since the epoch. */
  at: number;
  /** `_ng_attempt_index` of the run. */
  attempt: number;
  /** When a run was sent again under its own index; null: it was sent once. */
  since: number | null;
}

/** The end of an agent's rollout, as far as the collection's files need it. */
export type AgentOutcome =
  | (Ended & { kind: 'result'; text: string })
  | (Ended &
      Omit<RunFailure, 'failure_class'> & {
        kind: 'failure';
        /** null only where `persist` is false. */
        failure_class: string | null;
        /** false: nothing of it may be written. */
        persist: boolean;
        /** The agent's answer, if it reported the failure itself or lacks only a usable reward. */
        text: string | null;
      })
  /** Stopped or cancelled: not a failure of the row. Nothing is written, and it is played again. */
  | { kind: 'unfinished'; at: number };

/** null: the rollout has not ended. */
export function agentOutcomeOf(trajectory: Trajectory): AgentOutcome | null {
  const { end, lives, run_fault } = trajectory;
  if (end === null) return null;
  const { at } = end;
  const since = sentAgainAt(trajectory);
  const result = lives.at(-1)?.result ?? null;
  const isValid = VALID_STOP_REASONS.has(end.stop_reason);
  if (isValid && result !== null)
    return { kind: 'result', at, attempt: result.attempt, text: result.text, since };
  if (!isValid && end.stop_reason !== 'failed' && end.stop_reason !== 'timeout')
    return { kind: 'unfinished', at };
  const failure = {
    kind: 'failure',
    at,
    attempt: attemptOf(trajectory),
    terminal: false,
    persist: true,
    text: null,
    status: null,
    since,
    type: end.failure?.type ?? 'Failed',
    message: end.failure?.message ?? 'the rollout failed',
  } as const;
  if (end.stop_reason === 'timeout') return { ...failure, failure_class: 'timeout' };
  if (run_fault?.failure_class !== undefined) {
    const { failure_class, status = null, type, message } = run_fault;
    return { ...failure, failure_class, status, type, message, text: result?.text ?? null };
  }
  if (result === null) return { ...failure, failure_class: 'agent_request_failed' };
  const { failure_class, terminal, persist, text, attempt, masked, refused } = result;
  // Not a row to train on, but a result of the collection: upstream's files have it with its marks.
  const isNoRow = masked !== undefined || refused !== undefined;
  if (isNoRow && failure_class === null && persist)
    return { kind: 'result', at, attempt, text, since };
  return { ...failure, failure_class, terminal, persist, text };
}

/** Why it is not sent to its agent yet: the server is not there, or takes no runs. null: it was sent. */
export function absenceOf({ standing }: Pick<Trajectory, 'standing'>): string | null {
  const fault = lastFault(standing);
  if (fault?.type !== 'EnvironmentUnavailable') return null;
  // A run that failed is played again after a pause: its agent is there.
  const isOfRun = fault.failure_class !== undefined && fault.uncounted !== true;
  return isOfRun ? null : fault.message;
}

/** A life that was lost was none of the row's attempts, so that the next one has its index. */
function sentAgainAt({ lives }: Trajectory): number | null {
  const [before, last] = lives.slice(-2);
  return before !== undefined && last !== undefined && before.exit === null ? last.line.at : null;
}

/** `_ng_attempt_index` of its last life. */
export function attemptOf({ extra_env_info, lives }: Trajectory): number {
  const { success, data } = AgentSample.safeParse(extra_env_info);
  return (success ? data.attempt_index : 0) + failuresBefore({ lives });
}
