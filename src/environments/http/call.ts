import { Readable } from 'node:stream';
import { z } from 'zod';
import { writeJson, readJson, type Foreign } from '../../platform/json/kept.js';
import { jsonIn } from '../../platform/json/object.js';
import type { FaultType } from '../../model/faults.js';
import { Fault } from '../../model/faults.js';
import type { Allowance, Share } from '../../platform/waits/allowance.js';
import { createAllowance, withShare } from '../../platform/waits/allowance.js';
import { shortened } from '../../platform/errors.js';
import type { Answer } from '../../platform/http/client.js';
import { baseUrl } from '../../platform/http/base-url.js';
import { createHttpClient, MAX_ANSWER_BYTES } from '../../platform/http/client.js';
import type { HttpFailure } from '../../platform/http/failure.js';
import { httpFailureIn, neverConnected } from '../../platform/http/failure.js';
import { retryAfterMs } from '../../platform/http/retry-after.js';
import { authorizationOf, tokenHint, type Token } from './token.js';
import { shapeProblem } from '../../platform/json/depth.js';
import { rejected, rejectedFields } from '../rejections.js';

const CONNECT_TIMEOUT_MS = 10_000;
/** Length of an error text in a fault: tracebacks are long, and failures are stored in history. */
const MAX_ERROR_TEXT = 2000;

export interface HttpCall {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  headers?: Record<string, string>;
  /** Sent as JSON; a stream is sent piece by piece. */
  body?: unknown;
  /** JSON text, sent unchanged instead of `body`. */
  json?: string;
  timeout_ms?: number;
  signal: AbortSignal;
  /** Statuses besides 2xx that count as answers. */
  accept?: number[];
  /**
   * A share of the allowance for large answers, which the caller gives back; absent: it is given back with the text.
   */
  share?: Share | undefined;
}

export interface Reply {
  /** `POST http://…/step`: the call's name in messages. */
  request: string;
  status: number;
  text: string;
  set_cookies: string[];
}

/** The cause of a fault that comes from an answer. */
export interface RefusalFacts {
  status: number;
  text: string;
}

export function refusalIn({ cause }: Fault): RefusalFacts | null {
  const facts = cause as Partial<RefusalFacts> | null | undefined;
  const { status, text } = facts ?? {};
  return typeof status === 'number' && typeof text === 'string' ? { status, text } : null;
}

/** For a fault of `send`: the error code if no connection was ever made; null if something may have been sent. */
export const neverSent = ({ cause }: Fault): string | null => neverConnected(cause);

export interface HttpCallSettings {
  url: string;
  timeout_ms: number;
  /** Sent with every request. */
  token?: Token | null;
  /** Size limit of an answer. A longer one is refused without reading on. */
  max_answer_bytes?: number;
  /** The allowance that large answers of a process share. */
  answers?: Allowance;
  /** Like the client's. */
  keep_alive_ms?: number;
}

export type HttpCalls = ReturnType<typeof createHttpCall>;

/** Sends requests below `url` over its own connections; the faults are those of `createHttpEnvironment`. */
export function createHttpCall({
  url: given,
  timeout_ms,
  max_answer_bytes = MAX_ANSWER_BYTES,
  answers = createAllowance(0),
  keep_alive_ms,
  token = null,
}: HttpCallSettings) {
  const url = baseUrl(given);
  const client = createHttpClient({
    connect_timeout_ms: Math.min(CONNECT_TIMEOUT_MS, timeout_ms),
    ...(keep_alive_ms !== undefined && { keep_alive_ms }),
  });

  const ask = async (call: HttpCall & { share: Share }): Promise<Reply> => {
    const { method, path, signal, share } = call;
    const patience_ms = call.timeout_ms ?? timeout_ms;
    const request = `${method} ${url}${path}`;
    const body = call.json ?? bodyOf(call.body);
    const answer = await client
      .exchange({
        method,
        url: `${url}${path}`,
        headers: {
          'rollout-protocol': '1',
          // So that a server ends calls, and drops queued ones, that nobody waits for any more.
          'rollout-call-timeout': String(patience_ms / 1000),
          ...authorizationOf(token),
          ...(body !== null && { 'content-type': 'application/json' }),
          ...call.headers,
        },
        body,
        timeout_ms: patience_ms,
        signal,
        max_bytes: max_answer_bytes,
        share,
      })
      .catch((error: unknown) => {
        const failure = httpFailureIn(error);
        throw failure === null ? error : failed(failure, { request, at: url });
      });
    const { status, text, set_cookies } = answer;
    const good = (status >= 200 && status < 300) || call.accept?.includes(status) === true;
    if (!good) throw refusal(answer, { request, at: url, method, token });
    return { request, status, text, set_cookies };
  };
  const send = (call: HttpCall): Promise<Reply> =>
    call.share === undefined
      ? withShare(answers, (share) => ask({ ...call, share }))
      : ask({ ...call, share: call.share });
  return { send, close: client.close };
}

function bodyOf(body: unknown): string | Readable | null {
  if (body === undefined) return null;
  return body instanceof Readable ? body : writeJson(body);
}

interface RequestSite {
  request: string;
  at: string;
}

/** An answer that is too large or unreadable would be the same on the next attempt. */
function failed(failure: HttpFailure, { request, at }: RequestSite): Fault {
  const { kind, message } = failure;
  const isAnswer = kind === 'too_large' || kind === 'unreadable';
  return new Fault({
    type: isAnswer ? 'EnvironmentRejected' : 'EnvironmentUnavailable',
    message: isAnswer ? `${request}: ${message}` : `${request} failed: ${message}`,
    at,
    cause: failure,
  });
}

function refusal(
  { status, text, header }: Answer,
  { request, at, method, token }: RequestSite & Pick<HttpCall, 'method'> & { token: Token | null },
): Fault {
  const wait = retryAfterMs(header);
  const { message, trace } = errorText(text);
  const hint = method === 'GET' && status === 401 ? `; ${tokenHint(token)}` : '';
  return new Fault({
    type: refusalType(status, method),
    message: `${request} answered ${status}: ${message}${hint}`,
    at,
    status,
    cause: { status, text } satisfies RefusalFacts,
    ...(wait !== null && { retryAfterMs: wait }),
    ...(trace !== undefined && { trace }),
  });
}

/** A busy server or a proxy, not the input: another attempt may succeed. */
const BUSY: ReadonlySet<number> = new Set([408, 429]);
/** A server that refuses a probe like this refuses every step: no rollout starts before that is mended. */
const UNWELCOME: ReadonlySet<number> = new Set([401, 403, 421]);

/** 500 is an exception for this input. For a probe, which has no input, it means that the service is not well. */
function refusalType(status: number, method: HttpCall['method']): FaultType {
  if (status === 500 && (method === 'POST' || method === 'PUT')) return 'EnvironmentFailed';
  const is_away = status >= 500 || BUSY.has(status) || (method === 'GET' && UNWELCOME.has(status));
  return is_away ? 'EnvironmentUnavailable' : 'EnvironmentRejected';
}

const ErrorBody = z.object({
  error: z.object({ type: z.string(), message: z.string(), trace: z.string().optional() }),
});

/** The protocol's error; for anything else (a proxy's page, a framework's error) its text. */
function errorText(text: string): { message: string; trace: string | undefined } {
  const { success, data } = ErrorBody.safeParse(jsonIn(text));
  const said = success ? `${data.error.type}: ${data.error.message}` : text.trim();
  const message = said === '' ? 'no error body' : shortened(said, MAX_ERROR_TEXT);
  return { message, trace: data?.error.trace };
}

/**
 * Python writes NaN and Infinity into JSON. They are refused here, and the parser's text shows them. What is `foreign` in
 * the reply comes back as it came.
 */
export function parseJson(
  { request, text }: Pick<Reply, 'request' | 'text'>,
  { at, foreign = {} }: { at: string; foreign?: Foreign },
): unknown {
  const refuse = (what: string): Error =>
    rejected({ subject: `${request} answered`, at, problems: [{ where: '(body)', what }] });
  const problem = shapeProblem(text);
  if (problem !== null) throw refuse(problem);
  try {
    return readJson(text, foreign);
  } catch (error) {
    throw refuse(`expected JSON, got ${text === '' ? 'an empty body' : String(error)}`);
  }
}

/** Parses a reply; throws `EnvironmentRejected` that names each field, what was expected and what came. */
export function readReply<T extends z.ZodType>(
  reply: Pick<Reply, 'request' | 'text'>,
  { schema, ...how }: { schema: T; at: string; foreign?: Foreign },
): z.infer<T> {
  const input = parseJson(reply, how);
  const { data, error } = schema.safeParse(input);
  if (error === undefined) return data;
  throw rejectedFields({ subject: `${reply.request} answered`, at: how.at, error, input });
}
