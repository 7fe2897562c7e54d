import { AgentSample } from '../model/agent-sample.js';
import { Fault } from '../model/faults.js';
import type { LineOf } from '../model/journal.js';
import { nextStep } from '../model/stop-rules.js';
import type { AgentRuns } from '../model/trajectory.js';
import { toMs } from '../model/durations.js';
import type { AgentServers } from '../environments/environment.js';
import type { Activities } from './contract.js';
import type { Dependencies } from './dependencies.js';
import type { Hold } from './hold.js';
import { recordFault } from './hold.js';
import { playFromJournal } from './play-from-journal.js';

/**
 * Has an agent play the rollout, unless the journal holds its result already. A run that was sent and not answered may
 * have happened: it is one of the row's attempts, and is sent again only while the row has others left.
 */
export function createRunAgent(dependencies: Dependencies): Activities['runAgent'] {
  return playFromJournal(dependencies, {
    activity: 'runAgent',
    play: async (hold) => {
      if (nextStep(hold.journal.trajectory) === 'run') await runAgent(hold, dependencies);
    },
  });
}

async function runAgent(hold: Hold, { environment }: Dependencies): Promise<void> {
  const { trajectory } = hold.journal;
  const { agent: runs, extra_env_info, start } = trajectory;
  const sample = AgentSample.parse(extra_env_info);
  const attempt = sample.attempt_index + runs.attempts;
  if (runs.failure?.terminal === true) throw agentFailed(runs.failure, sample);
  if (attempt >= sample.max_attempts) throw outOfAttempts(runs, sample);

  const task = start?.task_name ?? '';
  const servers = environment(task)?.environment.agent;
  if (servers === undefined) {
    const message = `No environment found for task type: ${task}, or it is no agent's`;
    throw await recordFault(new Fault({ type: 'EnvironmentRejected', message }), hold);
  }
  const result = await ask(servers, { hold, sample, attempt }).catch(async (error: unknown) => {
    const thrown = await recordFault(error, hold);
    throw attempt + 1 < sample.max_attempts ? thrown : asLast(thrown);
  });
  await hold.journal.append(result);
  if (runs.failure === null) return;
  await hold.journal.sync();
  throw agentFailed(runs.failure, sample);
}

/** Before the request the journal says that it is sent: whoever comes after this attempt counts it. */
async function ask(
  servers: AgentServers,
  { hold, sample, attempt }: { hold: Hold; sample: AgentSample; attempt: number },
): Promise<Omit<LineOf<'result'>, 'writer' | 'at'>> {
  const { journal, signal, sayWaiting } = hold;
  const { agent, row, timeout } = sample;
  // A server that is not there costs no attempt.
  const url = await servers.health(agent, signal);
  await sayWaiting(null);
  await journal.append({ kind: 'run', attempt, agent, url });
  await journal.sync();
  const began = performance.now();
  const answer = await servers.run({
    url,
    body: row,
    attempt,
    signal,
    ...(timeout !== null && { timeout_ms: toMs(timeout) }),
  });
  const run_s = (performance.now() - began) / 1000;
  return { kind: 'result', attempt, ...answer, run_s };
}

/** The fault of a run that was the row's last is final; of a server that was not there it is not. */
function asLast(error: unknown): unknown {
  if (!(error instanceof Fault) || error.failureClass === null) return error;
  const { type, message, at } = error;
  return new Fault({ type, message, retryable: false, cause: error, ...(at !== null && { at }) });
}

function outOfAttempts({ fault, failure }: AgentRuns, sample: AgentSample): Fault {
  if (failure !== null) return agentFailed(failure, sample);
  const { agent, max_attempts } = sample;
  return new Fault({
    type: fault?.type === 'EnvironmentRejected' ? 'EnvironmentRejected' : 'EnvironmentUnavailable',
    message:
      fault?.message ??
      `a run of ${agent} was sent and never answered, and it was the last of ${max_attempts}`,
    retryable: false,
  });
}

function agentFailed(
  { failure_class, persist, attempt }: LineOf<'result'>,
  { agent }: AgentSample,
): Fault {
  const said = failure_class === null ? '' : ` _ng_failure_class ${JSON.stringify(failure_class)}`;
  const message = `${agent} answered attempt ${attempt} with${said}${persist ? '' : ' _ng_no_persist'}`;
  return new Fault({ type: 'AgentFailed', message });
}
