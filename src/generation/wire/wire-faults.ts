import { Fault } from '../../model/faults.js';
import { textOf } from '../../model/problems.js';
import { shortened } from '../../platform/errors.js';
import type { Answer } from '../../platform/http/client.js';
import type { HttpFailure } from '../../platform/http/failure.js';
import { brokenBy, httpFailureIn } from '../../platform/http/failure.js';
import { retryAfterMs } from '../../platform/http/retry-after.js';
import { isRecord, jsonIn } from '../../platform/json/object.js';

/** A proxy's error page must not fill a history. */
const MAX_MESSAGE = 2000;

/** Begins every message: the base URL, and the request (`completion <request id>`, `GET /health`). */
export interface CallSite {
  replica: string;
  call: string;
}

export type HttpReply = Pick<Answer, 'status' | 'text' | 'header'>;

/** An answer that is not 2xx. */
export interface Refusal {
  status: number;
  /** With the status in front. */
  message: string;
  header: Answer['header'];
}

export const refusalOf = ({ status, text, header }: HttpReply): Refusal => ({
  status,
  message: `${status} ${serverError(text)}`,
  header,
});

/** What a server said in place of a stream. */
export class StreamRefused extends Error {
  readonly reply: HttpReply;

  constructor(reply: HttpReply) {
    super('refused');
    this.reply = reply;
  }
}

/** An error that came as an event of a stream, as `{"error": …}` or flat. */
export class ErrorEvent extends Error {
  readonly event: unknown;

  constructor(event: unknown) {
    super(messageIn(event) ?? textOf(event));
    this.event = event;
  }
}

export const isErrorEvent = (event: unknown): boolean => {
  const { error, object } = asRecord(event);
  return Boolean(error) || object === 'error';
};

/**
 * The message of an error's body. Four shapes are in use: nested `{"error": {message, …}}`, flat `{"object": "error",
 * message, …}`, FastAPI's `{"detail"}` (a text or a list) and `{"error": "Unauthorized"}` (capture 213). Anything else
 * is its own text.
 */
export const serverError = (raw: string): string =>
  shortened(messageIn(jsonIn(raw)) ?? (raw.trim() || '(no body)'), MAX_MESSAGE);

function messageIn(parsed: unknown): string | null {
  const body = asRecord(parsed);
  const error = asRecord(body['error'] ?? body);
  const said = [error['message'], body['detail'], body['error']].find((text) => text != null);
  if (said === undefined) return null;
  return typeof said === 'string' ? said : textOf(said);
}

const asRecord = (value: unknown): Record<string, unknown> => (isRecord(value) ? value : {});

/**
 * The refusal in an error of a stream: by the status of the answer, or by the code of an event, with which servers
 * refuse a request after the headers. null: neither says that the request is refused.
 */
function refusalIn(error: unknown): Refusal | null {
  if (error instanceof StreamRefused) return refusalOf(error.reply);
  const code = error instanceof ErrorEvent ? codeInside(error.event) : Number.NaN;
  if (!(error instanceof ErrorEvent) || !(code >= 400) || isTemporary(code)) return null;
  return { status: code, message: `${IN_BAND}${code} ${error.message}`, header: () => null };
}

const IN_BAND = 'error inside the stream: ';

/** The HTTP status that an error names; NaN if it names none. */
function codeInside(event: unknown): number {
  const { error } = asRecord(event);
  const { code, status, status_code } = asRecord(error || event);
  const named = [code, status, status_code].map((one) =>
    typeof one === 'string' && /^\d{3}$/.test(one) ? Number(one) : one,
  );
  return named.find((one) => typeof one === 'number') ?? Number.NaN;
}

/** Statuses with which servers refuse a request for its length. */
const TOO_LONG: ReadonlySet<number> = new Set([400, 413]);

/** Whether it is a refusal that may be for the request's length. Its words prove nothing. */
export const mayBeTooLong = (error: unknown): boolean =>
  TOO_LONG.has(refusalIn(error)?.status ?? 0);

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
 * The fault for an error of a stream or of the HTTP client. A refusal goes by its status, or by its code inside the
 * stream. An answer that is too large or not JSON is a `ProtocolError`. Everything else (refused, reset, late, a body
 * cut short, an error inside the stream) is `GenerationUnavailable`.
 */
export function wireFault(error: unknown, site: CallSite): Fault {
  // A call that had to come first has failed.
  if (error instanceof Fault) return error;
  const refusal = refusalIn(error);
  if (refusal !== null) return refusalFault(refusal, site);
  const failure = httpFailureIn(error);
  if (failure?.kind === 'too_large' || failure?.kind === 'unreadable') {
    return protocolFault(failure.message, { ...site, cause: failure });
  }
  // Without the parser's text, which quotes characters that may belong to a secret.
  if (error instanceof SyntaxError) return protocolFault('expected JSON, got other text', site);
  const what =
    error instanceof ErrorEvent
      ? `${IN_BAND}${shortened(error.message, MAX_MESSAGE)}`
      : brokenBy(error).message;
  return unavailableFault(what, { ...site, cause: error });
}

/** Faults that only this side can see: one of our limits has passed, or the server reports itself unhealthy. */
export function unavailableFault(
  what: string,
  { status, cause, ...site }: CallSite & { status?: number; cause?: unknown },
): Fault {
  return new Fault({
    type: 'GenerationUnavailable',
    message: prefixed(site, what),
    at: site.replica,
    cause,
    ...(status !== undefined && { status }),
  });
}

/** A request that the engine, or this side on its behalf, refuses for good. */
export const rejected = (replica: string, what: string): Fault =>
  new Fault({ type: 'GenerationRejected', message: `${replica}: ${what}`, at: replica });

export function protocolFault(
  what: string,
  { cause, ...site }: CallSite & { cause?: HttpFailure },
): Fault {
  const message = prefixed(site, what);
  return new Fault({ type: 'ProtocolError', message, at: site.replica, cause });
}

const prefixed = ({ replica, call }: CallSite, what: string): string =>
  `${replica}: ${call}: ${what}`;
