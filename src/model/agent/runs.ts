import type { LineOf } from '../journal.js';

/** How often an agent was asked to play the rollout, and with which result. */
export interface AgentRuns {
  /** Requests that were about to be sent, without uncounted ones. */
  attempts: number;
  /** The last of them. */
  run: LineOf<'run'> | null;
  /** The first result that counts: it names no failure class, is neither masked nor refused, and is to be kept. */
  result: LineOf<'result'> | null;
  /**
   * How the last run failed: by a result that says so, by a fault, or by both where the result lacks a usable reward.
   * null: it was never answered.
   */
  failure: LineOf<'result'> | null;
  fault: LineOf<'fault'> | null;
  /** Why the next run is not sent yet: the agent's server is unavailable, or takes no runs. */
  absent: LineOf<'fault'> | null;
  /**
   * The attempt that was given back and is sent again under its own index, because the agent has seen that index
   * before.
   */
  taken_back: number | null;
  /** While a run is in progress: the previous state, which is restored if the run does not count. */
  before: Pick<AgentRuns, 'run' | 'failure' | 'fault'> | null;
}

export const noRuns = (): AgentRuns => ({
  attempts: 0,
  run: null,
  result: null,
  failure: null,
  fault: null,
  absent: null,
  taken_back: null,
  before: null,
});

/** Folds a line about the agent into its runs. */
export function applyToRuns(runs: AgentRuns, line: LineOf<'run' | 'result' | 'fault'>): void {
  switch (line.kind) {
    case 'run': {
      const { run, failure, fault } = runs;
      runs.before = { run, failure, fault };
      runs.attempts += 1;
      runs.run = line;
      runs.failure = null;
      runs.fault = null;
      runs.absent = null;
      break;
    }
    case 'result':
      applyResult(runs, line);
      break;
    case 'fault':
      applyFault(runs, line);
      break;
  }
}

function applyResult(runs: AgentRuns, line: LineOf<'result'>): void {
  if (runs.run?.attempt !== line.attempt || runs.result !== null) return;
  runs.before = null;
  const isFailure =
    line.failure_class !== null || line.masked !== undefined || line.refused !== undefined;
  const counts = !isFailure && line.persist && line.reward !== null;
  runs[counts ? 'result' : 'failure'] = line;
}

function applyFault(runs: AgentRuns, line: LineOf<'fault'>): void {
  const isOfRun = line.failure_class !== undefined;
  if (line.uncounted === true) takeBack(runs);
  else if (isOfRun) {
    runs.fault = line;
    runs.before = null;
  }
  if (line.type === 'EnvironmentUnavailable' && (line.uncounted === true || !isOfRun))
    runs.absent = line;
}

function takeBack(runs: AgentRuns): void {
  if (runs.before === null) return;
  runs.taken_back = runs.run?.attempt ?? null;
  Object.assign(runs, runs.before);
  runs.attempts -= 1;
  runs.before = null;
}

/** Token counts of an agent's answer: those to train on, or else the usage that it reports. */
export function lengthsOf({ tokens, usage }: Pick<LineOf<'result'>, 'tokens' | 'usage'>): {
  assistant_tokens: number;
  env_tokens: number;
} {
  if (tokens !== undefined) {
    const assistant_tokens = tokens.calls.reduce((sum, length) => sum + length, 0);
    return { assistant_tokens, env_tokens: tokens.env };
  }
  const { output_tokens, total_tokens } = usage ?? { output_tokens: 0, total_tokens: 0 };
  return { assistant_tokens: output_tokens, env_tokens: Math.max(0, total_tokens - output_tokens) };
}
