import { AgentSample } from '../../../src/model/agent/sample.js';
import { VALID_STOP_REASONS } from '../../../src/model/workflow-safe/stop-reasons.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';

/**
 * The end of an agent's rollout, as far as the collection's files need it. `since`: the time of a run that was sent
 * again under its own index; null: it was sent once.
 */
export type AgentOutcome =
  | { kind: 'result'; at: number; attempt: number; text: string; since: number | null }
  | {
      kind: 'failure';
      /** When it ended, in seconds since the epoch. */
      at: number;
      /** `_ng_attempt_index` of the run that failed. */
      attempt: number;
      /** null only where `persist` is false. */
      failure_class: string | null;
      /** The row must not be played again. */
      terminal: boolean;
      /** false: nothing of it may be written. */
      persist: boolean;
      /** The agent's answer, if it reported the failure itself or lacks only a usable reward. */
      text: string | null;
      /** The fault's type. */
      type: string;
      message: string;
      /** HTTP status, if the agent answered with an error. */
      status: number | null;
      since: number | null;
    }
  /** Stopped or cancelled: not a failure of the row. Nothing is written, and it is played again. */
  | { kind: 'unfinished'; at: number };

/** null: the rollout has not ended. */
export function agentOutcomeOf(trajectory: Trajectory): AgentOutcome | null {
  const { end, agent } = trajectory;
  if (end === null) return null;
  const { at } = end;
  const since = sentAgainAt(trajectory);
  if (VALID_STOP_REASONS.has(end.stop_reason)) {
    const { result } = agent;
    return result && { kind: 'result', at, attempt: result.attempt, text: result.text, since };
  }
  if (end.stop_reason !== 'failed' && end.stop_reason !== 'timeout')
    return { kind: 'unfinished', at };
  const failure = {
    kind: 'failure',
    at,
    attempt: agent.run?.attempt ?? firstAttemptOf(trajectory),
    terminal: false,
    persist: true,
    text: null,
    status: null,
    since,
    type: end.failure?.type ?? 'Failed',
    message: end.failure?.message ?? 'the rollout failed',
  } as const;
  if (end.stop_reason === 'timeout') return { ...failure, failure_class: 'timeout' };
  if (agent.fault !== null) {
    const { failure_class = 'agent_request_failed', status = null, type, message } = agent.fault;
    const text = agent.failure?.text ?? null;
    return { ...failure, failure_class, status, type, message, text };
  }
  if (agent.failure !== null) {
    const { failure_class, terminal, persist, text, attempt, masked, refused } = agent.failure;
    // Not a row to train on, but a result of the collection: upstream's files have it with its marks.
    const isNoRow = masked !== undefined || refused !== undefined;
    if (isNoRow && failure_class === null && persist)
      return { kind: 'result', at, attempt, text, since };
    return { ...failure, failure_class, terminal, persist, text };
  }
  return { ...failure, failure_class: 'agent_request_failed' };
}

const sentAgainAt = ({ agent: { run, taken_back } }: Trajectory): number | null =>
  run !== null && run.attempt === taken_back ? run.at : null;

function firstAttemptOf({ extra_env_info }: Trajectory): number {
  const { success, data } = AgentSample.safeParse(extra_env_info);
  return success ? data.attempt_index : 0;
}
