import type { AgentRuns } from '../../model/agent/runs.js';
import { AgentSample } from '../../model/agent/sample.js';
import type { RolloutRef } from '../../model/batch-request.js';
import { Fault, faultWith, judged } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import type { LineOf } from '../../model/journal.js';
import { isProgram, nextStep } from '../../model/turn/stop-rules.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import type { AgentServers } from '../../environments/environment.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { recordFault } from '../record-fault.js';

/** The pause after the first failed run of a batch, and after later ones: a row has few attempts. */
const FIRST_WAIT_MS = 2000;
const LATER_WAIT_MS = 15_000;

/**
 * Checks that the agent's server is available before the journal is claimed. A row of an absent server is retried for
 * hours, and each claim would make its journal grow.
 */
export async function checkAgentIsThere(
  ref: RolloutRef,
  { number, store, environment, signal }: Dependencies & Pick<Attempt, 'number' | 'signal'>,
): Promise<void> {
  if (number === 1) return;
  const trajectory = await store.readTrajectory(ref);
  const { agent, end, extra_env_info, start } = trajectory;
  if (isProgram(trajectory)) {
    const { program } = environment(start?.task_name ?? '')?.environment ?? {};
    if (end === null && nextStep(trajectory) === 'run') await program?.health(signal);
    return;
  }
  if (agent.absent === null || agent.result !== null || end !== null) return;
  const servers = environment(start?.task_name ?? '')?.environment.agent;
  try {
    await servers?.health(AgentSample.parse(extra_env_info).agent, signal);
  } catch (error) {
    if (error instanceof Fault && error.type === 'EnvironmentUnavailable') throw error;
  }
}

/**
 * Has an agent play the rollout. A run that was sent and not answered may have happened. So it counts as one of the
 * row's attempts, and is sent again only while the row has others left.
 */
export async function runAgent(playing: Playing, { environment }: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  const { agent: runs, extra_env_info, start } = trajectory;
  const sample = AgentSample.parse(extra_env_info);
  const attempt = sample.attempt_index + runs.attempts;
  if (runs.failure?.terminal === true) throw agentFailed(runs.failure, sample);
  if (attempt >= sample.max_attempts) throw outOfAttempts(runs, sample);

  const task = start?.task_name ?? '';
  const servers = environment(task)?.environment.agent;
  if (servers === undefined) {
    const message = `No environment found for task type: ${task}, or it is no agent's`;
    throw await recordFault(new Fault({ type: 'EnvironmentRejected', message }), playing);
  }
  await ask(servers, { playing, sample, attempt }).catch(async (error: unknown) => {
    const thrown = await recordFault(error, playing);
    throw counts(thrown) ? ofAttempt(thrown, { playing, sample, attempt }) : thrown;
  });
  if (runs.failure === null) return;
  await playing.journal.sync();
  throw agentFailed(runs.failure, sample);
}

interface AskedRun {
  playing: Playing;
  sample: AgentSample;
  attempt: number;
}

/** The journal records the request before it is sent, so that later attempts count it. */
async function ask(servers: AgentServers, { playing, sample, attempt }: AskedRun): Promise<void> {
  const { journal, signal, reportWaiting } = playing;
  const { agent } = sample;
  // An absent server costs no attempt.
  const url = await servers.health(agent, signal);
  await reportWaiting(null);
  await journal.append({ kind: 'run', attempt, agent, url });
  try {
    await journal.sync();
    await send(servers, { url, playing, sample, attempt });
  } catch (error) {
    const isOfAttempt = error instanceof Fault ? error.type === 'StoreFault' : signal.aborted;
    if (isOfAttempt) await takeBack(error, playing);
    throw error;
  }
}

async function send(
  servers: AgentServers,
  { url, playing, sample, attempt }: AskedRun & { url: string },
): Promise<void> {
  const { row, timeout } = sample;
  const began = performance.now();
  await servers.run({
    url,
    body: row,
    attempt,
    keep: async (answer) => {
      const run_s = (performance.now() - began) / 1000;
      await playing.journal.append({ kind: 'result', attempt, ...answer, run_s });
    },
    signal: playing.signal,
    ...(timeout !== null && { timeout_ms: toMs(timeout) }),
  });
}

/**
 * A run that was cut from this side, or whose answer found no room, gives its attempt back. If that cannot be written,
 * it counts, as if this attempt had died.
 */
export async function takeBack(
  error: unknown,
  { journal }: Pick<Playing, 'journal'>,
): Promise<void> {
  const type = error instanceof Fault ? error.type : 'Cancelled';
  const message = describeError(error).slice(0, 300);
  const why = { type, message, replica: null, uncounted: true } as const;
  await journal.append({ kind: 'fault', turn: 0, ...why }).catch(() => undefined);
}

/** A server that was absent, or took no run, costs no attempt. */
const counts = (error: unknown): error is Fault =>
  error instanceof Fault && error.failureClass !== null && !error.uncounted;

/** A pause before the row's next attempt, in which a failed service may recover. */
function ofAttempt(fault: Fault, { playing, sample, attempt }: AskedRun): Fault {
  const wait = playing.journal.trajectory.agent.attempts > 1 ? LATER_WAIT_MS : FIRST_WAIT_MS;
  const waits = faultWith(fault, { retryAfterMs: fault.retryAfterMs ?? wait });
  return judged(waits, { attempts_left: sample.max_attempts - attempt - 1 });
}

function outOfAttempts({ fault, failure }: AgentRuns, sample: AgentSample): Fault {
  if (failure !== null && fault === null) return agentFailed(failure, sample);
  const { agent, max_attempts } = sample;
  const type =
    fault?.type === 'EnvironmentRejected' ? 'EnvironmentRejected' : 'EnvironmentUnavailable';
  const message =
    fault?.message ??
    `a run of ${agent} was sent and never answered, and it was the last of ${max_attempts}`;
  return judged(new Fault({ type, message }), { attempts_left: 0 });
}

function agentFailed(
  { failure_class, masked, refused, persist, attempt, reward }: LineOf<'result'>,
  { agent }: AgentSample,
): Fault {
  if (refused !== undefined) {
    const message = `${agent} answered attempt ${attempt} with what cannot be trained on: ${refused.message}`;
    // A model server does the same to the same history again, so only a new rollout can succeed.
    return judged(new Fault({ type: refused.type, message }), { attempts_left: 0 });
  }
  const said = [
    ...(failure_class === null ? [] : [`_ng_failure_class ${JSON.stringify(failure_class)}`]),
    ...(persist ? [] : ['_ng_no_persist']),
    ...(masked === undefined ? [] : [`${masked}: its reward means nothing`]),
  ];
  // Its worker died before it could journal what is wrong with the reward.
  if (said.length === 0 && reward === null) said.push('no usable reward');
  const message = `${agent} answered attempt ${attempt} with ${said.join(' ')}`;
  return new Fault({ type: 'AgentFailed', message });
}
