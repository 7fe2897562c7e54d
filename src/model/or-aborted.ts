/** What a promise gives that nothing can cancel, or, if it comes first, the signal's reason to throw. */
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
