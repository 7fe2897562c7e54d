/** Waits that a signal ends. A wait that is over leaves no listener behind: signals outlive what they end. */

/** Settles as the promise does or, if the signal aborts first, rejects with its reason. The promise itself goes on. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      reject(signal.reason as Error);
    };
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    void promise.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', leave);
    });
  });
}

/**
 * Runs under a controller of its own that follows `signal`. A signal that lives longer than a request never reaches
 * what handles the request: some clients leave their listeners on it.
 */
export async function withController<T>(
  signal: AbortSignal,
  run: (controller: AbortController) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const follow = (): void => {
    controller.abort(signal.reason);
  };
  signal.addEventListener('abort', follow, { once: true });
  try {
    return await run(controller);
  } finally {
    signal.removeEventListener('abort', follow);
  }
}
