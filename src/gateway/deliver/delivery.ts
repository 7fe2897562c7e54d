import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Handed as Known } from '../match/matching.js';
import { isDelivered, STAYS_OPEN_S } from '../match/matching.js';

/** Whether answers arrive, by what their sockets do after the last byte. */

/** An answer whose last byte was handed to its socket. */
export interface Handed {
  /** It is open, and nothing is known yet. */
  isOpen: () => boolean;
  /** A call continues this one. */
  continued: () => void;
  /** The life is over: what is open has arrived. */
  over: () => void;
  /** Nobody looks at it any more. */
  leave: () => void;
}

/** What a socket does between two requests. */
interface Watched {
  error: boolean;
  /** Answers that went out before the next request. */
  handed: Set<() => void>;
}
const watched = new WeakMap<Socket, Watched>();

/** Once for each connection. */
export function watchSocket(socket: Socket): void {
  const state: Watched = { error: false, handed: new Set() };
  watched.set(socket, state);
  socket.on('error', () => {
    state.error = true;
  });
}

/** A request has come on it: what it was given before has arrived. One that came before the last byte says nothing. */
export function askedAgain(socket: Socket): void {
  const before = [...(watched.get(socket)?.handed ?? [])];
  for (const tell of before) tell();
}

/** Ends the response, and resolves when its last byte is handed over (true) or the connection is gone (false). */
export function handOver(response: ServerResponse, last: string): Promise<boolean> {
  return new Promise((resolve) => {
    response.once('close', () => {
      resolve(false);
    });
    response.end(last, () => {
      // Also called for a connection that was cut off with bytes in it.
      resolve(response.writableFinished && !response.destroyed);
    });
  });
}

/** Decides once, from the last byte on. */
export function watchDelivery(socket: Socket, decide: (whole: boolean) => void): Handed {
  const known: Known = { connection: 'open', asked_again: false, continued: false, open_s: 0 };
  let isDecided = false;
  const state = watched.get(socket);
  const leave = (): void => {
    isDecided = true;
    clearTimeout(timer);
    state?.handed.delete(asked);
    socket.off('close', closed);
  };
  const changed = (change: Partial<Known>): void => {
    if (isDecided) return;
    Object.assign(known, change);
    const whole = isDelivered(known);
    if (!whole && known.connection === 'open') return;
    leave();
    decide(whole);
  };
  const asked = (): void => {
    changed({ asked_again: true });
  };
  const closed = (): void => {
    changed({ connection: state?.error === true ? 'reset' : 'closed' });
  };
  const timer = setTimeout(() => {
    changed({ open_s: STAYS_OPEN_S });
  }, STAYS_OPEN_S * 1000).unref();
  state?.handed.add(asked);
  socket.once('close', closed);
  if (socket.destroyed) closed();
  return {
    isOpen: () => !isDecided,
    continued: () => {
      changed({ continued: true });
    },
    over: () => {
      changed({ open_s: STAYS_OPEN_S });
    },
    leave,
  };
}
