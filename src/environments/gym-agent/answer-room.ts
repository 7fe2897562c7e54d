/** Large answers of a process that are held at once: each costs several times its bytes until it is journalled. */
export interface AnswerRoom {
  /**
   * Waits until so many bytes have room, or are alone; first come, first served. Rejects with the signal's reason.
   * Whoever is in leaves by what is returned.
   */
  enter: (bytes: number, signal: AbortSignal) => Promise<() => void>;
}

/** An answer that does not come on holds others up no longer than this. */
const PATIENCE_MS = 10_000;

interface Waiter {
  bytes: number;
  grant: () => void;
}

export function createAnswerRoom({
  bytes: limit,
  patience_ms = PATIENCE_MS,
}: {
  bytes: number;
  /** While nobody enters or leaves; then the next one is let in. */
  patience_ms?: number;
}): AnswerRoom {
  const waiting: Waiter[] = [];
  let held = 0;

  const admit = (waiter: Waiter): void => {
    impatience.stop();
    waiting.splice(waiting.indexOf(waiter), 1);
    held += waiter.bytes;
    waiter.grant();
  };
  const serve = (): void => {
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      if (held > 0 && held + first.bytes > limit) break;
      admit(first);
    }
    if (waiting.length === 0) impatience.stop();
    else impatience.start();
  };
  const impatience = createTimer(patience_ms, () => {
    const [first] = waiting;
    if (first !== undefined) admit(first);
    serve();
  });
  const leaving = (bytes: number): (() => void) => {
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      held -= bytes;
      impatience.stop();
      serve();
    };
  };

  return {
    enter: (bytes, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const abandon = (): void => {
          waiting.splice(waiting.indexOf(waiter), 1);
          reject(signal.reason as Error);
          serve();
        };
        const waiter: Waiter = {
          bytes,
          grant: () => {
            signal.removeEventListener('abort', abandon);
            resolve(leaving(bytes));
          },
        };
        signal.addEventListener('abort', abandon, { once: true });
        waiting.push(waiter);
        serve();
      }),
  };
}

/** One that runs goes on however often it is started. */
function createTimer(ms: number, run: () => void) {
  let running: NodeJS.Timeout | null = null;
  const stop = (): void => {
    if (running !== null) clearTimeout(running);
    running = null;
  };
  const start = (): void => {
    running ??= setTimeout(() => {
      running = null;
      run();
    }, ms).unref();
  };
  return { start, stop };
}
