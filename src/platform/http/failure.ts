import { causesOf, describeError } from '../errors.js';

/** Why an exchange has no usable answer. */
export type HttpFailureKind =
  /** Refused, reset, not found, cut short. */
  | 'broken'
  /** The two sides do not agree on TLS: a person must change something. */
  | 'tls'
  /** The deadline passed. */
  | 'late'
  /** A large answer was slower than `SLOWEST` in body.ts. */
  | 'slow'
  /** More bytes than allowed. */
  | 'too_large'
  /** An encoding that was not requested and is unknown. */
  | 'unreadable';

export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  readonly kind: HttpFailureKind;
  /** The system's or undici's code of a broken connection. */
  readonly code: string | null;

  constructor(
    message: string,
    { kind, code = null, cause }: { kind: HttpFailureKind; code?: string | null; cause?: unknown },
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.code = code;
  }
}

/** The error of a connection, with its code, since that of a name with several addresses has no text. */
export function brokenBy(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error;
  const text = describeError(error);
  const code = codeIn(error);
  const message = code === null || text.includes(code) ? text : `${text} (${code})`;
  return new HttpFailure(message, { kind: 'broken', code, cause: error });
}

function codeIn(error: unknown): string | null {
  const codes = causesOf(error).map((one) => (one as NodeJS.ErrnoException).code);
  return codes.find((code) => typeof code === 'string') ?? null;
}

/** Finds the `HttpFailure` inside an error of another package. */
export const httpFailureIn = (error: unknown): HttpFailure | null =>
  causesOf(error).find((one) => one instanceof HttpFailure) ?? null;

/** Whether starting the server, or waiting for it, does not help. */
export const isOfTls = (error: unknown): boolean => httpFailureIn(error)?.kind === 'tls';

const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'UND_ERR_CONNECT_TIMEOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

/** The code of a connection that was never made, or null if something may have been sent. */
export function neverConnected(error: unknown): string | null {
  const code = codeIn(error);
  return NEVER_CONNECTED.has(code) ? code : null;
}
