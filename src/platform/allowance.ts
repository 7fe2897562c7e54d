/**
 * An allowance of bytes that large things share: what does not fit waits in line, first come, first served. One that is
 * larger than the whole allowance is held alone.
 */
export interface Allowance {
  share: () => Share;
}

/** One holder's part. */
export interface Share {
  /** Waits until so many bytes fit. A share that holds some already waits for nobody. Rejects with the signal's reason. */
  take: (bytes: number, signal: AbortSignal) => Promise<void>;
  /** Gives back all that was taken; may be called again. */
  giveBack: () => void;
}

interface Waiter {
  bytes: number;
  grant: () => void;
}

export function createAllowance(limit: number): Allowance {
  const waiting: Waiter[] = [];
  let held = 0;

  const serve = (): void => {
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      if (held > 0 && held + first.bytes > limit) return;
      waiting.shift();
      held += first.bytes;
      first.grant();
    }
  };
  const wait = (bytes: number, signal: AbortSignal): Promise<void> =>
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
          resolve();
        },
      };
      signal.addEventListener('abort', abandon, { once: true });
      waiting.push(waiter);
      serve();
    });

  const share = (): Share => {
    let own = 0;
    return {
      take: async (bytes, signal) => {
        if (own > 0) held += bytes;
        else await wait(bytes, signal);
        own += bytes;
      },
      giveBack: () => {
        held -= own;
        own = 0;
        serve();
      },
    };
  };
  return { share };
}

/** Runs with a share that is given back at the end. */
export async function withShare<T>(
  { share }: Allowance,
  run: (share: Share) => Promise<T>,
): Promise<T> {
  const own = share();
  try {
    return await run(own);
  } finally {
    own.giveBack();
  }
}
