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
