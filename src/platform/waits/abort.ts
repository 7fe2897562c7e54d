import { setMaxListeners } from 'node:events';

/** Waits that end on a signal or after a time. A finished wait leaves no listener and no timer behind. */

/** Listens once; returns what ends that. Any number of waits may share a signal: that is no leak, and no warning. */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  setMaxListeners(0, signal);
  signal.addEventListener('abort', run, { once: true });
  return () => {
    signal.removeEventListener('abort', run);
  };
}

/** Settles as the promise does or, if the signal aborts first, rejects with its reason. The promise itself continues. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      reject(signal.reason as Error);
    };
    if (signal.aborted) leave();
    void promise.then(resolve, reject).finally(onAbort(signal, leave));
  });
}

/** Whether it resolves. */
export const succeeds = (promise: Promise<unknown>): Promise<boolean> =>
  promise.then(
    () => true,
    () => false,
  );

/** The result of `within` if the promise takes too long. */
export const LATE = Symbol('late');

/** Settles as the promise does, or resolves with `LATE` after that many milliseconds. The promise itself continues. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | typeof LATE> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof LATE>((resolve) => (timer = setTimeout(resolve, ms, LATE)));
  return await Promise.race([promise, late]).finally(() => {
    clearTimeout(timer);
  });
}

/**
 * Runs with a new controller that follows `signal`. A long-lived signal never reaches the code that handles one
 * request, because some clients leave their listeners on it.
 */
export async function withController<T>(
  signal: AbortSignal,
  run: (controller: AbortController) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const leave = onAbort(signal, () => {
    controller.abort(signal.reason);
  });
  try {
    return await run(controller);
  } finally {
    leave();
  }
}

/**
 * Runs with a signal that also aborts after that many milliseconds, with a `TimeoutError` as its reason. It replaces
 * `AbortSignal.any` with an `AbortSignal.timeout`, which Node.js 20 collects as garbage: such a signal may never abort.
 */
export async function withDeadline<T>(
  signal: AbortSignal,
  { ms, run }: { ms: number; run: (signal: AbortSignal) => Promise<T> },
): Promise<T> {
  return await withController(signal, async (controller) => {
    const timer = setTimeout(() => {
      controller.abort(new DOMException(`not within ${ms} ms`, 'TimeoutError'));
    }, ms);
    try {
      return await run(controller.signal);
    } finally {
      clearTimeout(timer);
    }
  });
}
