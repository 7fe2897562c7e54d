import { setTimeout as sleep } from 'node:timers/promises';

export interface Wait {
  /** The name of the awaited condition, for the error. */
  what: string;
  timeout_ms: number;
}

/** The promise's outcome, or an error after the time. */
export async function within<T>({ what, timeout_ms }: Wait, promise: Promise<T>): Promise<T> {
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
  { what, timeout_ms }: Wait,
  look: () => Promise<T> | T,
): Promise<Exclude<T, null | undefined | false>> {
  for (const end = performance.now() + timeout_ms; ;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) {
      return found as Exclude<T, null | undefined | false>;
    }
    if (performance.now() > end) throw new Error(`${what}: not within ${timeout_ms / 1000} s`);
    await sleep(50);
  }
}
