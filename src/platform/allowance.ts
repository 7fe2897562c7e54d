import { createWaitingLine } from './waiting-line.js';

/**
 * An allowance of bytes that large things share: what does not fit waits in line, first come, first served. One that is
 * larger than the whole allowance is held alone.
 */
export interface Allowance {
  share: () => Share;
}

/** One holder's part. */
export interface Share {
  /** Waits until so many bytes fit. A share that already holds some never waits. Rejects with the signal's reason. */
  take: (bytes: number, signal: AbortSignal) => Promise<void>;
  /** Gives back all that was taken; may be called again. */
  giveBack: () => void;
}

export function createAllowance(limit: number): Allowance {
  let held = 0;
  const line = createWaitingLine((bytes: number) => {
    if (held > 0 && held + bytes > limit) return null;
    held += bytes;
    return bytes;
  });
  const share = (): Share => {
    let own = 0;
    return {
      take: async (bytes, signal) => {
        if (own > 0) held += bytes;
        else await line.join(bytes, signal);
        own += bytes;
      },
      giveBack: () => {
        held -= own;
        own = 0;
        line.serve();
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
