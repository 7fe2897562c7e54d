import { Readable } from 'node:stream';
import { Agent, request, type Dispatcher } from 'undici';
import { z } from 'zod';
import { describeError, Fault } from '../model/faults.js';

const CONNECT_TIMEOUT_MS = 10_000;
/** Of an answer: what any request may hold. */
const LARGE_BYTES = 64 * 1024;
const MAX_RETRY_AFTER_MS = 60_000;
/** Characters of an error text that reach the fault: tracebacks are long, and failures live in history. */
const MAX_ERROR_TEXT = 2000;

export interface HttpCall {
  method: 'GET' | 'POST';
  path: string;
  headers?: Record<string, string>;
  /** Sent as JSON; of a stream, the pieces of it as they come. */
  body?: unknown;
  /** JSON text that is sent as it is, in place of `body`. */
  json?: string;
  /** Instead of the environment's own. */
  timeout_ms?: number;
  signal: AbortSignal;
  /** Statuses beside 2xx that are answers. */
  accept?: number[];
  /** Statuses beside 5xx that say the service is unavailable, not that it rejects the input. */
  retried?: number[];
  /** A longer answer is refused, and not read to its end. */
  max_bytes?: number;
  /** With `max_bytes`: waited for before more than the beginning of a large answer is read, told how many bytes it may have. */
  beforeLarge?: (bytes: number, signal: AbortSignal) => Promise<void>;
}

export interface Reply {
  /** `POST http://…/step`: how messages name the call. */
  request: string;
  status: number;
  text: string;
  /** Values of `set-cookie`. */
  set_cookies: string[];
}

/** What was answered, where a fault is an answer: its cause. */
export interface RefusalFacts {
  status: number;
  text: string;
}

export function refusalIn({ cause }: Fault): RefusalFacts | null {
  const facts = cause as Partial<RefusalFacts> | null | undefined;
  const { status, text } = facts ?? {};
  return typeof status === 'number' && typeof text === 'string' ? { status, text } : null;
}

/** Codes of a connection that was never made: nothing was sent. */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'UND_ERR_CONNECT_TIMEOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

/** Of a fault of `send`: the code of a connection that was never made; null where something may have been sent. */
export function neverSent({ cause }: Fault): string | null {
  const { code } = (cause ?? {}) as { code?: unknown };
  return typeof code === 'string' && NEVER_CONNECTED.has(code) ? code : null;
}

/** Sends requests below `url` over connections of its own; the faults are those of `createHttpEnvironment`. */
export function createHttpCall({
  url,
  timeout_ms,
  keep_alive = true,
}: {
  url: string;
  timeout_ms: number;
  /** false: a connection for each call, where one that the server has just closed must not be mistaken for one that broke. */
  keep_alive?: boolean;
}) {
  // One deadline per call (below) instead of the agent's own, which would cut steps of more than five minutes.
  const agent = new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    ...(!keep_alive && { pipelining: 0 }),
    connect: { timeout: Math.min(CONNECT_TIMEOUT_MS, timeout_ms) },
  });

  const send = async ({ method, path, signal, ...call }: HttpCall): Promise<Reply> => {
    const name = `${method} ${url}${path}`;
    const within = call.timeout_ms ?? timeout_ms;
    const { abort, late, release } = abortAfter(within, signal);
    try {
      signal.throwIfAborted();
      const response = await request(`${url}${path}`, {
        dispatcher: agent,
        method,
        headers: {
          'rollout-protocol': '1',
          ...(hasBody(call) && { 'content-type': 'application/json' }),
          ...call.headers,
        },
        body: call.json ?? bodyOf(call.body),
        signal: abort,
      });
      const { statusCode: status } = response;
      const good = (status >= 200 && status < 300) || call.accept?.includes(status) === true;
      const text = await textOf(response, { ...call, signal: abort });
      if (!good) {
        throw refusal({ name, at: url, response, text: text ?? '', retried: call.retried ?? [] });
      }
      if (text === null) throw tooLarge({ name, at: url, max_bytes: call.max_bytes });
      const set_cookies = [response.headers['set-cookie'] ?? []].flat();
      return { request: name, status, text, set_cookies };
    } catch (error) {
      if (error instanceof Fault) throw error;
      signal.throwIfAborted();
      const why = late() ? `no answer within ${within} ms` : describeNetworkError(error);
      const message = `${name} failed: ${why}`;
      throw new Fault({ type: 'EnvironmentUnavailable', message, at: url, cause: error });
    } finally {
      release();
    }
  };
  return { send, close: () => agent.destroy() };
}

const hasBody = ({ body, json }: Pick<HttpCall, 'body' | 'json'>): boolean =>
  body !== undefined || json !== undefined;

/** null where it has more bytes than that: the rest is not waited for. */
async function textOf(
  { body, headers }: Dispatcher.ResponseData,
  { max_bytes, beforeLarge, signal }: Pick<HttpCall, 'max_bytes' | 'beforeLarge' | 'signal'>,
): Promise<string | null> {
  if (max_bytes === undefined) return await body.text();
  const told = Number(headers['content-length'] ?? Number.NaN);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isLarge = false;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > max_bytes) return null;
    chunks.push(chunk);
    if (isLarge || !(bytes > LARGE_BYTES || told > LARGE_BYTES)) continue;
    isLarge = true;
    await beforeLarge?.(Math.min(told || max_bytes, max_bytes), signal);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

function tooLarge({
  name,
  at,
  max_bytes = 0,
}: {
  name: string;
  at: string;
  max_bytes: number | undefined;
}): Fault {
  const message = `${name} answered with more than ${max_bytes} bytes`;
  return new Fault({ type: 'EnvironmentRejected', message, at });
}

function bodyOf(body: unknown): string | Readable | null {
  if (body === undefined) return null;
  return body instanceof Readable ? body : JSON.stringify(body);
}

/** Follows `signal`, and aborts by itself after a time; `late` tells which. */
function abortAfter(milliseconds: number, signal: AbortSignal) {
  const controller = new AbortController();
  const deadline = new Error(`no answer within ${milliseconds} ms`);
  const follow = (): void => {
    controller.abort(signal.reason);
  };
  const timer = setTimeout(() => {
    controller.abort(deadline);
  }, milliseconds);
  signal.addEventListener('abort', follow, { once: true });
  return {
    abort: controller.signal,
    late: () => controller.signal.reason === deadline,
    release: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', follow);
    },
  };
}

interface Refusal {
  name: string;
  at: string;
  response: Dispatcher.ResponseData;
  text: string;
  retried: number[];
}

function refusal({ name, at, response, text, retried }: Refusal): Fault {
  const { statusCode: status, headers } = response;
  const isUnavailable = status >= 500 || retried.includes(status);
  const retryAfterMs = retryAfter(headers['retry-after']);
  return new Fault({
    type: isUnavailable ? 'EnvironmentUnavailable' : 'EnvironmentRejected',
    message: `${name} answered ${status}: ${errorText(text)}`,
    at,
    status,
    cause: { status, text } satisfies RefusalFacts,
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
  });
}

const ErrorBody = z.object({ error: z.object({ type: z.string(), message: z.string() }) });

/** The protocol's `{"error": {"type", "message"}}`; of anything else (a proxy's page, a framework's own) its text. */
function errorText(text: string): string {
  const { success, data } = ErrorBody.safeParse(jsonOrNull(text));
  const said = success ? `${data.error.type}: ${data.error.message}` : text.trim();
  if (said === '') return 'no error body';
  return said.length > MAX_ERROR_TEXT ? `${said.slice(0, MAX_ERROR_TEXT)}…` : said;
}

function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Seconds or a date, in milliseconds from here, at most a minute. */
function retryAfter(header: string | string[] | undefined): number | null {
  if (typeof header !== 'string') return null;
  const seconds = Number(header);
  const milliseconds = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000;
  return milliseconds > 0 ? Math.min(milliseconds, MAX_RETRY_AFTER_MS) : null;
}

/** A host with several addresses fails with an `AggregateError` whose text is empty; its code says what happened. */
function describeNetworkError(error: unknown): string {
  const text = describeError(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : null;
  return code === null || text.includes(code) ? text : `${text} (${code})`;
}
