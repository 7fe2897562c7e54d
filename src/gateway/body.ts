import type { IncomingMessage } from 'node:http';
import type { Share } from '../platform/waits/allowance.js';
import type { Refusal } from './refusals.js';
import { Refused } from './refusals.js';

/** The bytes of a request, which another program may send slowly, without end, or not at all. */

interface Bounds {
  /** Bytes. */
  most: number;
  /** For a small one; a large one has as much more as the slowest line needs. */
  patience_ms: number;
}

const SLOWEST_BYTES_PER_MS = 64;

const tooLarge = (bytes: number | null, most: number): Refusal => ({
  status: 413,
  code: 'request_too_large',
  message: `expected a body of at most ${most} bytes, got ${bytes ?? 'more'}`,
});

const tooSlow = (got: number, ms: number): Refusal => ({
  status: 408,
  code: 'request_timeout',
  message: `expected the whole body within ${Math.round(ms / 1000)} s, got ${got} bytes`,
});

/** It is read as it comes: what unpacks to any size is not unpacked. */
const encoded = (how: string): Refusal => ({
  status: 415,
  code: 'unsupported_encoding',
  message: `expected a body without an encoding, got ${JSON.stringify(how.slice(0, 64))}: send the JSON as it is`,
});

function encodingOf({ headers }: IncomingMessage): string | null {
  const content = headers['content-encoding'] ?? 'identity';
  const transfer = headers['transfer-encoding'] ?? 'chunked';
  if (content.toLowerCase() !== 'identity') return content;
  return transfer.toLowerCase() === 'chunked' ? null : transfer;
}

interface Reading extends Bounds {
  /** Of the bytes that all bodies may take. */
  share: Share;
  /** There is room: the client may send. */
  ready: () => void;
}

/** Throws a `Refused`; an `Error` if the client has gone. */
export async function bytesOf(
  request: IncomingMessage,
  { most, patience_ms, share, ready }: Reading,
): Promise<Buffer> {
  const encoding = encodingOf(request);
  if (encoding !== null) throw new Refused(encoded(encoding));
  const announced = Number(request.headers['content-length'] ?? NaN);
  if (announced > most) throw new Refused(tooLarge(announced, most));
  const expected = Number.isNaN(announced) ? most : announced;
  const gone = new AbortController();
  const close = (): void => {
    gone.abort(new Error('the client has gone'));
  };
  request.once('close', close);
  try {
    await share.take(expected, gone.signal);
    ready();
    return await read(request, { most, ms: patience_ms + expected / SLOWEST_BYTES_PER_MS });
  } finally {
    request.off('close', close);
  }
}

function read(
  request: IncomingMessage,
  { most, ms }: { most: number; ms: number },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    const done = (settle: () => void): void => {
      clearTimeout(timer);
      request.off('data', take).off('end', end).off('close', lost).off('error', lost);
      settle();
    };
    const refuse = (refusal: Refusal): void => {
      done(() => {
        reject(new Refused(refusal));
      });
    };
    const take = (part: Buffer): void => {
      parts.push(part);
      bytes += part.length;
      if (bytes > most) refuse(tooLarge(null, most));
    };
    const end = (): void => {
      done(() => {
        resolve(Buffer.concat(parts, bytes));
      });
    };
    const lost = (): void => {
      done(() => {
        reject(new Error('the client has gone'));
      });
    };
    const timer = setTimeout(() => {
      refuse(tooSlow(bytes, ms));
    }, ms);
    request.on('data', take).once('end', end).once('close', lost).on('error', lost);
  });
}
