import { createWaitingLine } from './waiting-line.js';

/**
 * A number of bytes that large values share. A value that does not fit waits in line, first come, first served. A value
 * larger than the whole allowance is alone in it.
 */
export interface Allowance {
  share: () => Share;
  /** Somebody waits for its bytes. */
  isAwaited: () => boolean;
}

/** The part of one that takes. */
export interface Share {
  /** Waits until that many bytes fit. A share that already has some never waits. Rejects with the signal's reason. */
  take: (bytes: number, signal: AbortSignal) => Promise<void>;
  /** Gives back everything that was taken. It may be called more than once. */
  giveBack: () => void;
}

export function createAllowance(limit: number): Allowance {
  let taken = 0;
  const line = createWaitingLine((bytes: number) => {
    if (taken > 0 && taken + bytes > limit) return null;
    taken += bytes;
    return bytes;
  });
  const share = (): Share => {
    let own = 0;
    return {
      take: async (bytes, signal) => {
        if (own > 0) taken += bytes;
        else await line.join(bytes, signal);
        own += bytes;
      },
      giveBack: () => {
        taken -= own;
        own = 0;
        line.serve();
      },
    };
  };
  return { share, isAwaited: () => line.length() > 0 };
}

/** Runs with a share and gives it back at the end. */
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
