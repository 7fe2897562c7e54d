import { BaseUrl } from '../../model/base-url.js';
import { Duration, Positive } from '../../model/field-kinds.js';
import { z } from 'zod';
import { toMs } from '../../model/workflow-safe/durations.js';
import { Fault } from '../../model/faults.js';
import { withField, type ForeignObject } from '../../model/foreign-object.js';
import { SESSION_KEY } from '../../model/journal/session.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import type { ExactEnvironment, StepContext, Turn, TurnAnswer } from '../environment.js';
import { createHttpCall, refusalIn, type HttpCalls, type Reply, readReply } from '../http/call.js';
import { type Token, TOKEN, tokenOf } from '../http/token.js';
import { named } from '../environment.js';
import { rejected } from '../rejections.js';
import { bytesOf, MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import type { Cookies } from './cookies.js';
import { cookieHeader, cookiesProblem, isOtherSession, mergeCookies } from './cookies.js';
import { saysNoEpisode, stepFault } from './lost-session.js';
import type { SessionState } from './wire.js';
import {
  observationText,
  IN_ANSWERS,
  requestIdOf,
  ResetAnswer,
  responseOf,
  rowOf,
  sessionOf,
  StepAnswer,
} from './wire.js';
import { defineKind, STEP_QUEUE } from '../kind.js';

export const GymnasiumSettings = z.strictObject({
  kind: z.literal('gymnasium').describe('a resources server of NeMo Gym with `/reset` and `/step`'),
  url: BaseUrl.describe('base URL of the server. `/reset`, `/step` and `/close` are appended'),
  ...TOKEN,
  timeout: Duration.default('5m').describe(
    'for one call, from connecting to the last byte of the answer',
  ),
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer'),
  max_steps: Positive.default(10).describe('steps of one rollout; the last of them truncates it'),
  ...STEP_QUEUE,
});
export type GymnasiumSettings = z.infer<typeof GymnasiumSettings>;

const HEALTH_TIMEOUT_MS = 5000;
/** An attempt at starting a rollout has five minutes, which include rendering the prompt. */
const RESET_TIMEOUT_MS = 240_000;

/**
 * A Gym resources server of the Gymnasium style (`/reset`, `/step`, `/close`), played turn by turn as upstream's
 * gymnasium_agent does, but with the tokens of our own generation. The journalled metadata identifies the session (its
 * cookies), so any worker can continue. lost-session.ts decides when it counts as lost.
 */
export function createGymnasium(
  { url: at, timeout, max_answer, max_steps }: GymnasiumSettings,
  { answers, token = null }: { answers?: Allowance; token?: Token | null } = {},
): ExactEnvironment {
  const { send, close } = createHttpCall({
    url: at,
    token,
    timeout_ms: toMs(timeout),
    max_answer_bytes: bytesOf(max_answer),
    ...(answers && { answers }),
    // On a kept connection, a server that closes it for its age looks like one that died during the step.
    keep_alive_ms: 0,
  });
  return {
    steps_once: true,

    async begin({ message_log, metadata }, { idempotency_key, deployment, signal, share }) {
      const reply = await send({
        method: 'POST',
        path: '/reset',
        body: rowOf(metadata, message_log),
        timeout_ms: Math.min(toMs(timeout), RESET_TIMEOUT_MS),
        signal,
        share,
      });
      const answer = readReply(reply, { schema: ResetAnswer, at, foreign: IN_ANSWERS });
      const { observation: content, info } = answer;
      const session: SessionState = {
        id: named(idempotency_key, deployment),
        cookies: cookiesOf({}, { reply, at }),
        prompt_messages: message_log.length,
        steps: 0,
        step_idempotency: info?.['supports_step_idempotency'] === true,
        explicit_close: info?.['supports_explicit_close'] === true,
      };
      return {
        messages: content ? [{ role: 'user', content }] : [],
        metadata: withField(metadata, { name: SESSION_KEY, value: session }),
      };
    },

    step: (turn, context) => step(turn, { context, at, send, max_steps }),

    async end(metadata, { signal }) {
      const session = sessionOf(metadata);
      if (session?.explicit_close !== true) return false;
      const headers = cookieHeader(session.cookies);
      await send({ method: 'POST', path: '/close', headers, body: {}, signal });
      return true;
    },

    /** Gym's servers have no common path for it: any answer shows that they are up. */
    async health(signal) {
      try {
        await send({ method: 'GET', path: '/', signal, timeout_ms: HEALTH_TIMEOUT_MS });
      } catch (error) {
        const status = error instanceof Fault ? refusalIn(error)?.status : undefined;
        if (status === undefined || [401, 403, 421, 502, 503, 504].includes(status)) throw error;
      }
    },

    close,
  };
}

async function step(
  { message_log: log, metadata }: Turn<ForeignObject>,
  {
    context,
    at,
    send,
    max_steps,
  }: { context: StepContext; at: string; send: HttpCalls['send']; max_steps: number },
): Promise<TurnAnswer<ForeignObject>> {
  const session = sessionOf(metadata);
  if (session === null) {
    const message =
      'a step of a gymnasium environment needs the session that /reset opened, got metadata without one';
    throw new Fault({ type: 'EnvironmentRejected', message, at });
  }
  if (context.was_asked === true && !session.step_idempotency)
    throw new Fault({ type: 'EnvironmentStateLost', message: ASKED });
  const row = rowOf(metadata, log.slice(0, session.prompt_messages));
  const id = requestIdOf(session, context.idempotency_key);
  const response = responseOf(log.at(-1)?.content ?? '', { id, row });
  const answered = withField(row, { name: 'response', value: response });
  const reply = await send({
    method: 'POST',
    path: '/step',
    headers: cookieHeader(session.cookies),
    body: session.step_idempotency
      ? withField(answered, { name: '_ng_step_request_id', value: id })
      : answered,
    signal: context.signal,
    share: context.share,
  }).catch((error: unknown) => {
    throw stepFault(error, session);
  });
  const { reward, terminated, ...answer } = readReply(reply, {
    schema: StepAnswer,
    at,
    foreign: IN_ANSWERS,
  });
  const cookies = cookiesOf(session.cookies, { reply, at });
  if (saysNoEpisode(answer) || isOtherSession(session.cookies, cookies)) {
    const message = `${reply.request} answered for another session: its session is lost`;
    throw new Fault({ type: 'EnvironmentStateLost', message, at });
  }
  const steps = session.steps + 1;
  const content = observationText(answer);
  const truncated = answer.truncated || (!terminated && steps >= max_steps);
  const value: SessionState = { ...session, cookies, steps };
  return {
    // gymnasium_agent adds nothing after the last turn if the observation is empty.
    observation: content === '' && (terminated || truncated) ? null : { role: 'user', content },
    reward,
    terminated,
    truncated,
    metadata: withField(metadata, { name: SESSION_KEY, value }),
  };
}

/** A step that may have been played is only repeated if the server recognises repeats. */
const ASKED =
  'an earlier attempt sent this step and died before the answer. The server does not report supports_step_idempotency, so the session may be one step ahead';

function cookiesOf(before: Cookies, { reply, at }: { reply: Reply; at: string }): Cookies {
  const cookies = mergeCookies(before, reply.set_cookies);
  const problem = cookiesProblem(cookies);
  if (problem === null) return cookies;
  throw rejected({ subject: `${reply.request} answered`, at, problems: [problem] });
}

export const gymnasium = defineKind({
  settings: GymnasiumSettings,
  answers: () => 'a service',
  roles: ['user'],
  make: (settings, context) =>
    createGymnasium(settings, { ...context, token: tokenOf(settings, context) }),
});
