import { setTimeout as sleep } from 'node:timers/promises';

/**
 * How long a wait goes on: what comes at all comes in this time, also on a machine with ten times its load, and a test
 * that hangs still ends and says what it waits for.
 */
export const PATIENCE_MS = 180_000;

/** The name of the awaited condition, for the error; with a time only where it may take longer than others. */
type Wait = string | { what: string; timeout_ms: number };

/** The promise's outcome, or an error after the time. */
export async function within<T>(wait: Wait, promise: Promise<T>): Promise<T> {
  const { what, timeout_ms } = boundOf(wait);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`${what}: not within ${timeout_ms / 1000} s`));
    }, timeout_ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Asks repeatedly until the answer is neither null nor undefined nor false; an error after the time. */
export async function eventually<T>(
  wait: Wait,
  look: () => Promise<T> | T,
): Promise<Exclude<T, null | undefined | false>> {
  const { what, timeout_ms } = boundOf(wait);
  const end = performance.now() + timeout_ms;
  for (let pause_ms = 5; ; pause_ms = Math.min(2 * pause_ms, 50)) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) {
      return found as Exclude<T, null | undefined | false>;
    }
    if (performance.now() > end) throw new Error(`${what}: not within ${timeout_ms / 1000} s`);
    await sleep(pause_ms);
  }
}

function boundOf(wait: Wait): { what: string; timeout_ms: number } {
  return typeof wait === 'string' ? { what: wait, timeout_ms: PATIENCE_MS } : wait;
}
