import { setImmediate } from 'node:timers/promises';
import { Fault, faultWith } from '../../model/faults.js';
import { membersOf, objectText } from '../../platform/json/members.js';
import type { AgentAnswer, AgentRequest, AgentServers } from '../environment.js';
import type { Allowance, Share } from '../../platform/waits/allowance.js';
import { withShare } from '../../platform/waits/allowance.js';
import { neverSent, type HttpCalls } from '../http/call.js';
import { rejected } from '../rejections.js';
import { parseAnswer, readAnswer } from './answer.js';
import type { CallTexts } from './call-texts.js';
import type { Problem } from '../../model/problems.js';

/** Answers of a proxy before the agent, or of an agent without room: the run itself did not fail. */
const NOT_OF_THE_RUN: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** Answers that mean that the run was not played. */
const NOT_PLAYED: ReadonlySet<number> = new Set([429, 503]);

export interface RunSettings {
  /** How an answer is read. */
  texts: CallTexts;
  callsTo: (url: string) => Pick<HttpCalls, 'send'>;
  /** For a run without its own timeout. */
  timeout_ms: number;
  answers: Allowance;
  /** A connection to this URL was refused, cut or silent. */
  broken: (url: string) => void;
}

/** `POST /run`. A fault of a run has NeMo Gym's failure class. */
export function createRun({ answers, ...settings }: RunSettings): AgentServers['run'] {
  return ({ keep, ...request }) =>
    withShare(answers, async (share) => {
      const { answer, fault } = await ask(request, { ...settings, share });
      await setImmediate();
      if (answer !== null) await keep(answer);
      if (fault !== null) throw fault;
    });
}

interface RunReply {
  /** null: nothing of it is kept. */
  answer: AgentAnswer | null;
  fault: Fault | null;
}

async function ask(
  { url, body, attempt, signal, ...own }: Omit<AgentRequest, 'keep'>,
  { callsTo, timeout_ms, broken, share, texts }: Omit<RunSettings, 'answers'> & { share: Share },
): Promise<RunReply> {
  try {
    const { request, text } = await callsTo(url).send({
      method: 'POST',
      path: '/run',
      json: attempt > 0 ? withAttempt(body, attempt) : body,
      signal,
      timeout_ms: own.timeout_ms ?? timeout_ms,
      share,
    });
    // Lets heartbeats run between the long steps of a large answer.
    await setImmediate();
    const read = await reading(text, { texts, row: body, signal });
    return asked(read, { text, subject: `${request} answered`, at: url });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isOfNetwork(error)) broken(url);
    throw classed(error);
  }
}

async function reading(
  text: string,
  { texts, row, signal }: { texts: CallTexts; row: string; signal: AbortSignal },
): Promise<ReturnType<typeof readAnswer>> {
  const parsed = parseAnswer(text);
  if ('problems' in parsed) return parsed.problems;
  const { value } = parsed;
  return readAnswer({ text, value }, { ...(await texts.of(value, signal)), row });
}

/** The row with its attempt, as upstream stamps it. */
function withAttempt(body: string, attempt: AgentRequest['attempt']): string {
  const row = membersOf(body);
  return row === null ? body : objectText(row.set('_ng_attempt_index', String(attempt)));
}

/** An answer without a usable reward is kept, and is a fault all the same. */
function asked(
  read: ReturnType<typeof readAnswer>,
  { text, ...whose }: { text: string; subject: string; at: string },
): RunReply {
  if (!Array.isArray(read)) return { answer: read, fault: null };
  const fault = classed(rejected({ ...whose, problems: read }));
  return { answer: unscoredAnswer(text, read), fault };
}

/** Refused, reset or late. A server that answers, whatever it says, has not moved. */
export const isOfNetwork = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'EnvironmentUnavailable' && error.status === null;

/** The same fault with its failure class: the agent failed, or gave no answer. */
export function classed(fault: Fault): Fault {
  const { type, status } = fault;
  const isOfTheRun =
    type === 'EnvironmentRejected' || (status !== null && !NOT_OF_THE_RUN.has(status));
  const isPlayed = status === null ? neverSent(fault) === null : !NOT_PLAYED.has(status);
  return faultWith(fault, {
    // The row's own attempts are its budget.
    ...(type === 'EnvironmentFailed' && { type: 'EnvironmentUnavailable' }),
    failureClass: isOfTheRun ? 'agent_run_error' : 'agent_request_failed',
    ...(!isPlayed && { uncounted: true }),
  });
}

/**
 * What is kept of an answer in which only the reward is no use, so that somebody can still score it; null: it has more
 * problems.
 */
function unscoredAnswer(text: string, problems: readonly Problem[]): AgentAnswer | null {
  if (!problems.every(({ where }) => where === 'reward')) return null;
  return {
    text,
    reward: null,
    failure_class: null,
    terminal: false,
    persist: true,
    usage: null,
  };
}
