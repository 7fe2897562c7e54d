import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { Fault } from '../../model/faults.js';
import { textOf } from '../../model/problems.js';
import { shortened } from '../../platform/errors.js';
import { brokenBy, httpFailureIn } from '../../platform/http/failure.js';
import { retryAfterMs } from '../../platform/http/retry-after.js';

/** A proxy's error page must not fill a history. */
const MAX_MESSAGE = 2000;

/** Begins every message: the base URL, and what was asked of it (`completion <request id>`, `GET /health`). */
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

/** What a server says in an error body, whichever of its shapes it takes. */
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

/** The refusal in an error of the `openai` package; null for errors that are no answer (connection, in-band). */
function refusalOf(error: unknown): Refusal | null {
  if (!(error instanceof APIError)) return null;
  const { status, message, param, headers } = error as APIError;
  if (status === undefined) return null;
  return { status, message, param: param ?? null, header: (name) => headers?.get(name) ?? null };
}

/** The server's own text of a 400; null for whatever else was thrown. Which status the package puts in front is known. */
export function badRequestOf(error: unknown): string | null {
  const refusal = refusalOf(error);
  return refusal?.status === 400 ? refusal.message.replace(/^400 /, '') : null;
}

/** 408, 429 and 5xx pass; any other refusal stays the same however often it is asked. */
export function refusalFault(refusal: Refusal, site: CallSite): Fault {
  const { status } = refusal;
  const message = prefixed(site, refusal.message);
  if (status < 500 && status !== 408 && status !== 429) {
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
 * The fault behind what the `openai` package or the HTTP client threw: a refusal by its status, an answer that is too
 * large or no JSON as a `ProtocolError`, all else (refused, reset, late, a body cut short, an error inside the stream) as
 * `GenerationUnavailable`.
 */
export function wireFault(error: unknown, site: CallSite): Fault {
  const refusal = refusalOf(error);
  if (refusal !== null) return refusalFault(refusal, site);
  const failure = httpFailureIn(error);
  if (failure?.kind === 'too_large' || failure?.kind === 'unreadable') {
    return protocolFault(failure.message, site);
  }
  // Without the parser's text, which quotes some characters from the middle of what may be a secret.
  if (error instanceof SyntaxError)
    return protocolFault('expected JSON, got text that is none', site);
  const inBand = error instanceof APIError && !(error instanceof APIConnectionError);
  const what = inBand
    ? `error inside the stream: ${shortened(error.message, MAX_MESSAGE)}`
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

/** What only we can say: a limit of ours has passed, or the server calls itself unhealthy. */
export function unavailableFault(what: string, site: CallSite): Fault {
  return new Fault({
    type: 'GenerationUnavailable',
    message: prefixed(site, what),
    at: site.replica,
  });
}

export function protocolFault(what: string, site: CallSite): Fault {
  return new Fault({ type: 'ProtocolError', message: prefixed(site, what), at: site.replica });
}

const prefixed = ({ replica, call }: CallSite, what: string): string =>
  `${replica}: ${call}: ${what}`;
