import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { describeError, Fault } from '../../model/faults.js';

const MAX_RETRY_AFTER_MS = 60_000;
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
    message: message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message,
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

const asText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

const asRecord = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

/** The refusal in an error of the `openai` package; null for errors that are no answer (connection, in-band). */
function refusalOf(error: unknown): Refusal | null {
  if (!(error instanceof APIError)) return null;
  const { status, message, param, headers } = error as APIError;
  if (status === undefined) return null;
  return { status, message, param: param ?? null, header: (name) => headers?.get(name) ?? null };
}

/**
 * A prompt that leaves no room for a token. Versions word it differently (captures 035, 037 and older ones);
 * what they share is status 400 and one of these names.
 */
export function isContextOverflow(error: unknown): boolean {
  const refusal = refusalOf(error);
  return (
    refusal?.status === 400 &&
    /context length|max_tokens|input_tokens/.test(`${refusal.message} ${refusal.param ?? ''}`)
  );
}

/** 408, 429 and 5xx pass; any other refusal stays the same however often it is asked. */
export function refusalFault(refusal: Refusal, site: CallSite): Fault {
  const { status } = refusal;
  const message = prefixed(site, refusal.message);
  if (status < 500 && status !== 408 && status !== 429) {
    return new Fault({ type: 'GenerationRejected', message, at: site.replica });
  }
  const wait = retryAfterMs(refusal);
  return new Fault({
    type: 'GenerationUnavailable',
    message,
    at: site.replica,
    ...(wait !== null && { retryAfterMs: wait }),
  });
}

function retryAfterMs({ header }: Refusal): number | null {
  const asked = (name: string, unit: number): number =>
    Number.parseFloat(header(name) ?? '') * unit;
  const wait = [asked('retry-after-ms', 1), asked('retry-after', 1000)].find((ms) => ms >= 0);
  return wait === undefined ? null : Math.min(wait, MAX_RETRY_AFTER_MS);
}

/**
 * The fault behind what the `openai` package or `undici` threw: a refusal by its status, JSON that does not parse as a
 * `ProtocolError`, all else (refused, reset, DNS, a body cut short, an error inside the stream) as `GenerationUnavailable`.
 */
export function wireFault(error: unknown, site: CallSite): Fault {
  const refusal = refusalOf(error);
  if (refusal !== null) return refusalFault(refusal, site);
  if (error instanceof SyntaxError) {
    const message = prefixed(site, `expected JSON, got text that is none: ${error.message}`);
    return new Fault({ type: 'ProtocolError', message, at: site.replica });
  }
  const inBand = error instanceof APIError && !(error instanceof APIConnectionError);
  return new Fault({
    type: 'GenerationUnavailable',
    message: prefixed(
      site,
      inBand ? `error inside the stream: ${error.message}` : connectionReason(error),
    ),
    at: site.replica,
    cause: error,
  });
}

/** With the system's code: the error of a name with several addresses (`localhost`) has no text of its own. */
function connectionReason(error: unknown): string {
  // The package drops the cause of this one: our Agent's limit on connecting, or the system's.
  if (error instanceof APIConnectionTimeoutError) return 'connecting timed out';
  const text = describeError(error);
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code } = e as NodeJS.ErrnoException;
    if (code !== undefined && !text.includes(code)) return `${text} (${code})`;
  }
  return text;
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
