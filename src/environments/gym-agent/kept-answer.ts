import { orAborted } from '../../platform/waits/abort.js';

/**
 * The answer to a shared question: one request at a time, and none while the last answer is fresh. It is kept for
 * `kept_ms` from when it was asked for; an error is not kept.
 */
export function createKeptAnswer<T>(
  ask: () => Promise<T>,
  /** `now`: monotonic, in milliseconds. */
  { kept_ms, now }: { kept_ms: number; now: () => number },
) {
  let kept: Promise<T> | null = null;
  let [is_asking, kept_until] = [false, -Infinity];
  const forget = (): void => {
    kept_until = -Infinity;
  };
  const askNow = (): Promise<T> => {
    [is_asking, kept_until] = [true, now() + kept_ms];
    kept = ask();
    void kept.then(undefined, forget).finally(() => (is_asking = false));
    return kept;
  };
  return {
    /** Callers that ask meanwhile share the request and its error; aborting `signal` ends one caller's wait alone. */
    latest: async (signal: AbortSignal): Promise<T> => {
      signal.throwIfAborted();
      const isFresh = is_asking || now() < kept_until;
      return await orAborted(kept !== null && isFresh ? kept : askNow(), signal);
    },
    /** The next call asks, unless a request is under way. */
    forget,
  };
}
