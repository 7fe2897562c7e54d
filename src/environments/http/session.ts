import { z } from 'zod';
import { foreignObject } from '../../model/foreign-object.js';
import { listOf } from '../../model/untrusted.js';
import type { ExactEnvironment, Named } from '../environment.js';
import { END_TIMEOUT_MS, namingHeaders, sessionOf } from '../environment.js';
import type { HttpCall, HttpCalls } from './call.js';
import { readReply } from './call.js';

/** An attempt at starting a rollout has five minutes, which include rendering the prompt. */
const BEGIN_TIMEOUT_MS = 240_000;
/** How long until a server without this route is asked again: another one may have replaced it. */
const NONE_FOR_MS = 60_000;
const MAX_MESSAGES = 1024;
/** Statuses for a route that does not exist. */
const NO_SUCH_ROUTE = [404, 405, 501];

const BeginAnswer = z.strictObject({
  /** Absent or null: the sample's stays. */
  metadata: foreignObject().nullish(),
  messages: listOf(z.strictObject({ role: z.string(), content: z.string() }))
    .refine(({ length }) => length <= MAX_MESSAGES, `expected at most ${MAX_MESSAGES} messages`)
    .default([]),
});

/** `POST /begin` and `POST /end`; 404, 405 or 501: there is none. */
export function sessionCalls(
  call: HttpCalls['send'],
  { at, timeout_ms }: { at: string; timeout_ms: number },
): Required<Pick<ExactEnvironment, 'begin' | 'mayBegin' | 'end'>> {
  const none_until = { '/begin': 0, '/end': 0 };
  const ask = async (
    path: keyof typeof none_until,
    { names, ...more }: Omit<HttpCall, 'method' | 'path'> & { names: Named },
  ) => {
    if (performance.now() < none_until[path]) return null;
    const headers = namingHeaders(names);
    const reply = await call({ method: 'POST', path, headers, accept: NO_SUCH_ROUTE, ...more });
    if (!NO_SUCH_ROUTE.includes(reply.status)) return reply;
    none_until[path] = performance.now() + NONE_FOR_MS;
    return null;
  };
  return {
    mayBegin: () => performance.now() >= none_until['/begin'],

    async begin({ message_log, metadata }, { signal, share, ...names }) {
      const reply = await ask('/begin', {
        names,
        body: { session: sessionOf(names), message_log, metadata },
        timeout_ms: Math.min(timeout_ms, BEGIN_TIMEOUT_MS),
        signal,
        share,
      });
      if (reply === null) return null;
      const answer = readReply(reply, { schema: BeginAnswer, at, foreign: { metadata: 'all' } });
      return { messages: answer.messages, metadata: answer.metadata ?? metadata };
    },

    async end(metadata, { signal, ...names }) {
      const reply = await ask('/end', {
        names,
        body: { session: sessionOf(names), metadata },
        timeout_ms: Math.min(timeout_ms, END_TIMEOUT_MS),
        signal,
      });
      return reply !== null;
    },
  };
}
