import { orAborted } from '../../platform/waits/abort.js';

/**
 * The answer to a shared question: one request at a time, and none while the last answer is fresh. It is kept for
 * `kept_ms` from when it was asked for; an error is not kept.
 */
export function createKeptAnswer<T>({
  ask,
  kept_ms,
  now,
}: {
  ask: () => Promise<T>;
  kept_ms: number;
  /** Monotonic, in milliseconds. */
  now: () => number;
}) {
  let last: { answer: T } | null = null;
  let asking: Promise<T> | null = null;
  let keptUntil = -Infinity;

  const askNow = async (): Promise<T> => {
    keptUntil = now() + kept_ms;
    try {
      const answer = await ask();
      last = { answer };
      return answer;
    } catch (error) {
      keptUntil = -Infinity;
      throw error;
    } finally {
      asking = null;
    }
  };
  return {
    /** Callers that ask meanwhile share the request and its error; aborting `signal` ends one caller's wait alone. */
    latest: async (signal: AbortSignal): Promise<T> => {
      signal.throwIfAborted();
      if (asking === null && last !== null && now() < keptUntil) return last.answer;
      asking ??= askNow();
      return await orAborted(asking, signal);
    },
    /** The next call asks, unless a request is under way. */
    forget: (): void => {
      keptUntil = -Infinity;
    },
  };
}
