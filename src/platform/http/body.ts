import type { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { Share } from '../waits/allowance.js';
import { shortened } from '../errors.js';
import { utf8Problem, utf8Text } from '../utf8-text.js';
import { HttpFailure } from './failure.js';

/** Size that every exchange may hold. A larger answer takes its bytes from a shared allowance. */
const LARGE_BYTES = 64 * 1024;
/** The minimum speed of a large answer, because it holds part of the allowance while it arrives. */
export interface Pace {
  grace_ms: number;
  bytes_per_ms: number;
}
const SLOWEST: Pace = { grace_ms: 10_000, bytes_per_ms: 256 };
const MAX_ERROR_BYTES = 64 * 1024;
const ERROR_PATIENCE_MS = 2000;

const FLUSH = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
const { BROTLI_OPERATION_FLUSH: flush } = constants;
const FLUSH_BROTLI = { flush, finishFlush: flush };
const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', () => createGunzip(FLUSH)],
  ['x-gzip', () => createGunzip(FLUSH)],
  ['deflate', () => createInflate(FLUSH)],
  ['br', () => createBrotliDecompress(FLUSH_BROTLI)],
]);

/** A body as the service meant it. Everything that counts bytes reads it decoded. */
export function decoded(body: Readable, encoding: string | null): Readable {
  // The connection is cut if nobody reads the body to its end.
  body.on('error', () => undefined);
  const name = encoding?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return body;
  const decoder = DECODERS.get(name)?.();
  if (decoder === undefined) {
    body.destroy();
    const message = `answered with content-encoding ${JSON.stringify(shortened(name, 40))}, expected none`;
    throw new HttpFailure(message, { kind: 'unreadable' });
  }
  return pipeline(body, decoder, () => undefined);
}

export interface Whole {
  /** Bytes that the headers announce, or NaN. */
  told: number;
  max_bytes: number;
  share: Share | undefined;
  /** Aborts the exchange if its body comes too slowly. */
  controller: AbortController;
  pace: Pace | undefined;
}

/** The text of an answer, which is held as a whole. Throws `too_large` without reading on. */
export async function wholeText(body: Readable, limits: Whole): Promise<string> {
  const { told, max_bytes, share, controller, pace = SLOWEST } = limits;
  const tooLarge = `answered with more than ${max_bytes} bytes`;
  if (told > max_bytes) {
    body.destroy();
    throw new HttpFailure(tooLarge, { kind: 'too_large' });
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  let watch: NodeJS.Timeout | undefined;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > max_bytes) throw new HttpFailure(tooLarge, { kind: 'too_large' });
      chunks.push(chunk);
      const isLarge = bytes > LARGE_BYTES || told > LARGE_BYTES;
      if (!isLarge || watch !== undefined) continue;
      await share?.take(told > 0 ? told : max_bytes, controller.signal);
      watch = watchPace(() => bytes, { controller, pace });
    }
  } finally {
    clearInterval(watch);
  }
  const whole = Buffer.concat(chunks);
  const problem = utf8Problem(whole);
  if (problem !== null)
    throw new HttpFailure(`answered with bytes that are no text: ${problem}`, {
      kind: 'unreadable',
    });
  return utf8Text(whole);
}

function watchPace(
  arrived: () => number,
  { controller, pace: { grace_ms, bytes_per_ms } }: { controller: AbortController; pace: Pace },
): NodeJS.Timeout {
  const began = performance.now();
  const before = arrived();
  return setInterval(() => {
    const least = (performance.now() - began - grace_ms) * bytes_per_ms;
    if (arrived() - before >= least) return;
    const message = `its answer came too slowly: ${arrived()} bytes so far, and less than ${bytes_per_ms} a millisecond`;
    controller.abort(new HttpFailure(message, { kind: 'slow' }));
  }, grace_ms / 10);
}

/** The beginning of an error's text, as far as it arrives soon. */
export async function errorText(body: Readable): Promise<{ text: string; isWhole: boolean }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isWhole = false;
  const timer = setTimeout(() => body.destroy(), ERROR_PATIENCE_MS);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_ERROR_BYTES) break;
    }
    isWhole = bytes <= MAX_ERROR_BYTES;
  } catch {
    // The status is known, so an incomplete text is good enough.
  } finally {
    clearTimeout(timer);
  }
  const text = Buffer.concat(chunks).subarray(0, MAX_ERROR_BYTES);
  return { text: new TextDecoder().decode(text), isWhole };
}
