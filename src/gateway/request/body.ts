import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { orAborted } from '../../platform/waits/abort.js';
import { createNews } from '../news.js';
import type { Refusal } from './refusals.js';
import { Refused } from './refusals.js';

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

export type Bodies = ReturnType<typeof createBodies>;

interface Body {
  add: (bytes: number) => void;
  /** When more may come; null: now. Rejects with the signal's reason. */
  room: (signal: AbortSignal) => Promise<void> | null;
  /** Runs behind those of the same rollout that came before it, and gives other rollouts their turn in between. */
  inTurn: <T>(run: () => Promise<T>) => Promise<T>;
  /** Nobody reads it any longer. It may be called more than once. */
  close: () => void;
}

const MIB = 1024 * 1024;
const OF_ALL = 256 * MIB;
const OF_ROLLOUT = 32 * MIB;
/** Any body may have so many, and a rollout's oldest all that it needs: else begun ones would wait for each other. */
const OF_ANY = 64 * 1024;

interface Rollout {
  taken: number;
  open: Set<Body>;
  reading: Promise<unknown>;
}

/**
 * Bytes of bodies that are no calls yet, counted as they come. Each rollout has a share: what one program sends, or does
 * not send, keeps no other one waiting. In bytes: of all rollouts together, and of one.
 */
export function createBodies({ of_all = OF_ALL, of_rollout = OF_ROLLOUT } = {}) {
  const rollouts = new WeakMap<object, Rollout>();
  const given = createNews();
  let taken = 0;
  return {
    open: (key: object): Body => {
      const rollout: Rollout = rollouts.get(key) ?? {
        taken: 0,
        open: new Set(),
        reading: Promise.resolve(),
      };
      rollouts.set(key, rollout);
      let own = 0;
      const fits = (): boolean => {
        if (own <= OF_ANY) return true;
        const [oldest] = rollout.open;
        return oldest === body || (rollout.taken <= of_rollout && taken <= of_all);
      };
      const count = (bytes: number): void => {
        own += bytes;
        rollout.taken += bytes;
        taken += bytes;
      };
      const body: Body = {
        add: count,
        room: (signal) => (fits() ? null : roomFor(fits, signal)),
        inTurn: (run) => {
          const turn = rollout.reading.then(() => nextTurn()).then(run);
          rollout.reading = turn.catch(() => undefined);
          return turn;
        },
        close: () => {
          if (!rollout.open.delete(body)) return;
          count(-own);
          given.tell();
        },
      };
      rollout.open.add(body);
      return body;
    },
  };

  async function roomFor(fits: () => boolean, signal: AbortSignal): Promise<void> {
    while (!fits()) await orAborted(given.next(), signal);
  }
}
