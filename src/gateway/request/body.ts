import type { IncomingMessage } from 'node:http';
import type { Body } from './bodies.js';
import type { Refusal } from './refusals.js';
import { Refused } from './refusals.js';

/** The bytes of a request, which another program may send slowly, without end, or not at all. */

interface Bounds {
  /** Bytes. */
  most: number;
  /** For a small one; a large one has as much more as the slowest line needs for what has come. */
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
  body: Body;
  /** It may be sent. */
  ready: () => void;
}

/** Throws a `Refused`; an `Error` if the client has gone. */
export async function bytesOf(
  request: IncomingMessage,
  { ready, ...reading }: Reading,
): Promise<Buffer> {
  const encoding = encodingOf(request);
  if (encoding !== null) throw new Refused(encoded(encoding));
  const announced = Number(request.headers['content-length'] ?? NaN);
  if (announced > reading.most) throw new Refused(tooLarge(announced, reading.most));
  ready();
  return await read(request, reading);
}

function read(
  request: IncomingMessage,
  { most, patience_ms, body }: Omit<Reading, 'ready'>,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    const began = performance.now();
    let until = began + patience_ms;
    let timer: NodeJS.Timeout | undefined;
    const over = new AbortController();
    const done = (settle: () => void): void => {
      clearTimeout(timer);
      over.abort();
      request.off('data', take).off('end', end).off('close', lost).off('error', lost);
      settle();
    };
    const refuse = (refusal: Refusal): void => {
      done(() => {
        reject(new Refused(refusal));
      });
    };
    const wait = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        refuse(tooSlow(bytes, until - began));
      }, until - performance.now());
    };
    const take = (part: Buffer): void => {
      parts.push(part);
      bytes += part.length;
      body.add(part.length);
      if (bytes > most) {
        refuse(tooLarge(null, most));
        return;
      }
      until += part.length / SLOWEST_BYTES_PER_MS;
      wait();
      const room = body.room(over.signal);
      if (room !== null) void rest(room);
    };
    /** Its time goes on when it may be sent again. */
    const rest = async (room: Promise<void>): Promise<void> => {
      const since = performance.now();
      clearTimeout(timer);
      request.pause();
      await room.catch(() => undefined);
      if (over.signal.aborted) return;
      until += performance.now() - since;
      wait();
      request.resume();
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
    wait();
    request.on('data', take).once('end', end).once('close', lost).on('error', lost);
  });
}
