import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Whether answers arrive, by what their sockets do after the last byte. */

export type Handed = ReturnType<typeof watchDelivery>;

/** What a socket does between two requests. */
interface Watched {
  error: boolean;
  /** Answers that went out before the next request. */
  handed: Set<() => void>;
}
const watched = new WeakMap<Socket, Watched>();

export function watchSocket(socket: Socket): void {
  const state: Watched = { error: false, handed: new Set() };
  watched.set(socket, state);
  socket.on('error', () => {
    state.error = true;
  });
}

/** A new request on a connection proves that its earlier answers arrived, unless it came before their last byte. */
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

/** An answer whose connection stays open so long has arrived. */
const STAYS_OPEN_MS = 5000;

/**
 * Decides once, from the last byte on; that it was handed over alone says nothing. It has arrived where another request
 * comes on the connection, where that closes without ECONNRESET or EPIPE, or stays open.
 */
export function watchDelivery(socket: Socket, decide: (whole: boolean) => void) {
  const state = watched.get(socket);
  let isDecided = false;
  const leave = (): void => {
    isDecided = true;
    clearTimeout(timer);
    state?.handed.delete(arrived);
    socket.off('close', closed);
  };
  const decided = (whole: boolean): void => {
    if (isDecided) return;
    leave();
    decide(whole);
  };
  const arrived = (): void => {
    decided(true);
  };
  const closed = (): void => {
    decided(state?.error !== true);
  };
  const timer = setTimeout(arrived, STAYS_OPEN_MS).unref();
  state?.handed.add(arrived);
  socket.once('close', closed);
  if (socket.destroyed) closed();
  return {
    isOpen: () => !isDecided,
    /** The life is over: what is open has arrived. */
    over: arrived,
    /** Stops watching: nobody needs to know any more. */
    leave,
  };
}
