import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { Fault } from '../../model/faults.js';
import { textOf } from '../../model/problems.js';
import { shortened } from '../../platform/errors.js';
import type { HttpFailure } from '../../platform/http/failure.js';
import { brokenBy, httpFailureIn } from '../../platform/http/failure.js';
import { retryAfterMs } from '../../platform/http/retry-after.js';

/** A proxy's error page must not fill a history. */
const MAX_MESSAGE = 2000;

/** Begins every message: the base URL, and the request (`completion <request id>`, `GET /health`). */
export interface CallSite {
  replica: string;
  call: string;
}

/** An answer that is not 2xx. */
export interface Refusal {
  status: number;
  /** With the status in front, as the `openai` package writes it. */
  message: string;
  param: string | null;
  header: (name: string) => string | null;
}

/** The message of an error body, in any of its shapes. */
interface ServerError {
  message: string;
  param: string | null;
}

/**
 * Four shapes are in use: nested `{"error": {message, …}}`, flat `{"object": "error", message, …}`, FastAPI's
 * `{"detail"}` (a text or a list) and `{"error": "Unauthorized"}` (capture 213). Anything else is its own text.
 */
export function readServerError(raw: string): ServerError {
  const body = asRecord(parseJson(raw));
  const error = asRecord(body['error'] ?? body);
  const said = [error['message'], body['detail'], body['error']].find((text) => text != null);
  const message = said === undefined ? raw.trim() || '(no body)' : asText(said);
  return {
    message: shortened(message, MAX_MESSAGE),
    param: typeof error['param'] === 'string' ? error['param'] : null,
  };
}

function parseJson(raw: string): unknown {
  try {
    return JSON.parse(raw) as unknown;
  } catch {
    return null;
  }
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : textOf(value));

const asRecord = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

/**
 * The refusal in an error of the `openai` package: by the status of the answer, or by the code of an error inside the
 * stream, with which servers refuse a request after the headers. null: neither says that the request is refused.
 */
function refusalOf(error: unknown): Refusal | null {
  if (!(error instanceof APIError)) return null;
  const { status, message, param, headers } = error as APIError;
  const facts = { param: param ?? null, header: (name: string) => headers?.get(name) ?? null };
  if (status !== undefined) return { ...facts, status, message };
  const code = codeInside((error as APIError).error);
  const isRefused = code >= 400 && !isTemporary(code);
  return isRefused ? { ...facts, status: code, message: `${IN_BAND}${code} ${message}` } : null;
}

const IN_BAND = 'error inside the stream: ';

/** The HTTP status that the body of an error names; NaN if it names none. */
function codeInside(body: unknown): number {
  const { code, status, status_code } = asRecord(body);
  const named = [code, status, status_code].map((one) =>
    typeof one === 'string' && /^\d{3}$/.test(one) ? Number(one) : one,
  );
  return named.find((one) => typeof one === 'number') ?? Number.NaN;
}

/** An event of a stream that is a flat error; the package reads only nested ones. */
export function flatError(event: unknown): APIError | null {
  const { object } = asRecord(event);
  return object === 'error' ? new APIError(undefined, event as object, undefined, undefined) : null;
}

/** Statuses with which servers refuse a request for its length. */
const TOO_LONG: ReadonlySet<number> = new Set([400, 413]);

/** Whether it is a refusal that may be for the request's length. Its words prove nothing. */
export const mayBeTooLong = (error: unknown): boolean =>
  TOO_LONG.has(refusalOf(error)?.status ?? 0);

const isTemporary = (status: number): boolean => status >= 500 || status === 408 || status === 429;

/** 408, 429 and 5xx are temporary. Any other refusal stays the same. */
export function refusalFault(refusal: Refusal, site: CallSite): Fault {
  const { status } = refusal;
  const message = prefixed(site, shortened(refusal.message, MAX_MESSAGE + IN_BAND.length));
  if (!isTemporary(status)) {
    return new Fault({ type: 'GenerationRejected', message, at: site.replica, status });
  }
  const wait = retryAfterMs(refusal.header);
  return new Fault({
    type: 'GenerationUnavailable',
    message,
    at: site.replica,
    status,
    ...(wait !== null && { retryAfterMs: wait }),
  });
}

/**
 * The fault for an error of the `openai` package or the HTTP client. A refusal goes by its status, or by its code
 * inside the stream. An answer that is
 * too large or not JSON is a `ProtocolError`. Everything else (refused, reset, late, a body cut short, an error inside
 * the stream) is `GenerationUnavailable`.
 */
export function wireFault(thrown: unknown, site: CallSite): Fault {
  // A call that had to come first has failed.
  if (thrown instanceof Fault) return thrown;
  // The text of the package's own error is "Connection error." alone.
  const error = thrown instanceof APIConnectionError ? (thrown.cause ?? thrown) : thrown;
  const refusal = refusalOf(error);
  if (refusal !== null) return refusalFault(refusal, site);
  const failure = httpFailureIn(error);
  if (failure?.kind === 'too_large' || failure?.kind === 'unreadable') {
    return protocolFault(failure.message, { ...site, cause: failure });
  }
  // Without the parser's text, which quotes characters that may belong to a secret.
  if (error instanceof SyntaxError)
    return protocolFault('expected JSON, got text that is none', site);
  const inBand = error instanceof APIError && !(error instanceof APIConnectionError);
  const what = inBand
    ? `${IN_BAND}${shortened(error.message, MAX_MESSAGE)}`
    : connectionReason(error);
  return new Fault({
    type: 'GenerationUnavailable',
    message: prefixed(site, what),
    at: site.replica,
    cause: error,
  });
}

function connectionReason(error: unknown): string {
  // The package drops the cause of this one: our limit on connecting, or the system's.
  if (error instanceof APIConnectionTimeoutError) return 'connecting timed out';
  return brokenBy(error).message;
}

/** Faults that only this side can see: one of our limits has passed, or the server reports itself unhealthy. */
export function unavailableFault(
  what: string,
  { status, ...site }: CallSite & { status?: number },
): Fault {
  return new Fault({
    type: 'GenerationUnavailable',
    message: prefixed(site, what),
    at: site.replica,
    ...(status !== undefined && { status }),
  });
}

export function protocolFault(
  what: string,
  { cause, ...site }: CallSite & { cause?: HttpFailure },
): Fault {
  const message = prefixed(site, what);
  return new Fault({ type: 'ProtocolError', message, at: site.replica, cause });
}

const prefixed = ({ replica, call }: CallSite, what: string): string =>
  `${replica}: ${call}: ${what}`;
