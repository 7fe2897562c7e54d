import { setImmediate } from 'node:timers/promises';
import { AgentSample } from '../../model/agent/sample.js';
import { Fault } from '../../model/faults.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { membersOf, objectText } from '../../platform/json/members.js';
import type { Allowance, Share } from '../../platform/waits/allowance.js';
import { onAbort, orAborted } from '../../platform/waits/abort.js';
import type { Program, ProgramEnd, ProgramStart } from '../environment.js';
import { neverSent, type HttpCalls } from '../http/call.js';
import type { AnswerRules } from './answer.js';
import { endOf, failedBy } from './answer.js';

/** Answers of a proxy before the agent, or of an agent without room: the run itself did not fail. */
const NOT_OF_THE_RUN: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

const NOT_PLAYED: ReadonlySet<number> = new Set([429, 503]);

/** Pauses before the second attempt of a row and before later ones, in which a failed service may recover. */
const FIRST_PAUSE_MS = 2000;
const LATER_PAUSE_MS = 15_000;

export interface RunSettings {
  rules: AnswerRules;
  serverOf: (agent: string, signal: AbortSignal) => Promise<string>;
  callsTo: (url: string) => Pick<HttpCalls, 'send'>;
  /** For a run without its own timeout. */
  timeout_ms: number;
  answers: Allowance;
  /** A connection to this URL was refused, cut or silent. */
  broken: (url: string) => void;
}

/** `POST /run` as a program: one that was sent and not answered is lost with its attempt. */
export function createRuns(
  settings: RunSettings,
): Pick<Program, 'outlives' | 'start' | 'wait' | 'endOf' | 'stop'> {
  const { answers, rules } = settings;
  /** Aborting `over` cuts a run in progress, and gives the room of its answer back. */
  const runs = new Map<string, { ended: Promise<ProgramEnd>; over: AbortController }>();
  const stop = (run: string): Promise<void> => {
    runs.get(run)?.over.abort(new Error('its run is over'));
    runs.delete(run);
    return Promise.resolve();
  };
  return {
    outlives: false,
    stop,
    start: (run, how) => {
      const over = new AbortController();
      const signal = AbortSignal.any([how.signal, over.signal]);
      // Answers may be large: others wait for room until this one is journalled.
      const share = answers.share();
      onAbort(signal, share.giveBack);
      const ended = ask(how, { ...settings, share, signal });
      const settled = (): void => {
        // It may have been granted while it was given back.
        if (signal.aborted) share.giveBack();
      };
      ended.then(settled, settled);
      runs.set(run, { ended, over });
      return Promise.resolve({ state: 'running' });
    },
    wait: async (run, { signal }) => {
      const running = runs.get(run);
      return running === undefined ? 'gone' : await orAborted(running.ended, signal);
    },
    endOf: ({ text, attempt, run_s }, info) => {
      const sample = AgentSample.parse(info);
      const said = { sample, attempt, run_s, rules };
      return endOf(text, { ...said, subject: `${sample.agent} answered`, at: sample.agent });
    },
  };
}

/** The end of one run. Throws the fault of one that was not played. */
async function ask(
  { task, failures = 0 }: Pick<ProgramStart, 'task' | 'failures'>,
  { share, signal, ...settings }: RunSettings & { share: Share; signal: AbortSignal },
): Promise<ProgramEnd> {
  const began = performance.now();
  const sample = AgentSample.parse(task.metadata);
  const attempt = sample.attempt_index + failures;
  const url = await settings.serverOf(sample.agent, signal).catch((error: unknown) => {
    throw isAway(error) ? error.with({ uncounted: true }) : error;
  });
  try {
    const { request, text } = await settings.callsTo(url).send({
      method: 'POST',
      path: '/run',
      json: rowOf(sample.row, { attempt, key: task.key }),
      signal,
      timeout_ms: sample.timeout === null ? settings.timeout_ms : toMs(sample.timeout),
      share,
    });
    // Lets heartbeats run between the long steps of a large answer.
    await setImmediate();
    return endOf(withoutKey(text, { ...sample, key: task.key }), {
      ...{ sample, attempt, rules: settings.rules },
      ...{ subject: `${request} answered`, at: url },
      run_s: (performance.now() - began) / 1000,
    });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isOfNetwork(error)) settings.broken(url);
    const failure = told(classed(error), task.key);
    if (failure.uncounted || signal.aborted) throw failure;
    // A pause before the row's next attempt, unless the server says how long it is.
    const pause = failures > 0 ? LATER_PAUSE_MS : FIRST_PAUSE_MS;
    return failedBy(failure.with({ retryAfterMs: failure.retryAfterMs ?? pause }));
  }
}

/** The row with its attempt as upstream stamps it, and with the id that leads the calls of its model to the gateway. */
function rowOf(body: string, { attempt, key }: { attempt: number; key: string }): string {
  if (attempt === 0 && key === '') return body;
  const row = membersOf(body);
  if (row === null) return body;
  if (attempt > 0) row.set('_ng_attempt_index', String(attempt));
  if (key !== '') row.set('_ng_rollout_id', JSON.stringify(key));
  return objectText(row);
}

/** Agents answer with the row that they were sent, and a key is nobody else's. */
function withoutKey(
  text: string,
  { key, row, task_index, rollout_index }: AgentSample & { key: string },
): string {
  if (key === '' || !text.includes(key)) return text;
  const own = membersOf(row)?.get('_ng_rollout_id');
  const answer = membersOf(text);
  if (answer?.has('_ng_rollout_id') === true) {
    if (own === undefined) answer.delete('_ng_rollout_id');
    else answer.set('_ng_rollout_id', own);
  }
  const id = `${task_index}-${rollout_index}`;
  return (answer === null ? text : objectText(answer)).replaceAll(key, id);
}

/** What an agent says of its error may name the address of its calls. */
function told(fault: Fault, key: string): Fault {
  if (key === '') return fault;
  const without = (text: string): string => text.replaceAll(key, '(key)');
  const { message, trace } = fault;
  return fault.with({
    message: without(message),
    ...(trace !== null && { trace: without(trace) }),
    // It has the whole text.
    cause: undefined,
  });
}

const isAway = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'EnvironmentUnavailable';

/** Refused, reset or late. A server that answers anything has not moved. */
export const isOfNetwork = (error: unknown): error is Fault =>
  isAway(error) && error.status === null;

/** The same fault with its failure class: the agent failed, or gave no answer. */
export function classed(fault: Fault): Fault {
  const { type, status } = fault;
  const isOfTheRun =
    type === 'EnvironmentRejected' || (status !== null && !NOT_OF_THE_RUN.has(status));
  const isPlayed = status === null ? neverSent(fault) === null : !NOT_PLAYED.has(status);
  return fault.with({
    // The row's own attempts are its budget.
    ...(type === 'EnvironmentFailed' && { type: 'EnvironmentUnavailable' }),
    failureClass: isOfTheRun ? 'agent_run_error' : 'agent_request_failed',
    ...(!isPlayed && { uncounted: true }),
  });
}
