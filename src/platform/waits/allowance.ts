import { createWaitingLine } from './waiting-line.js';

/**
 * A number of bytes that large values share. A value that does not fit waits in line, first come, first served. A value
 * larger than the whole allowance is held alone.
 */
export interface Allowance {
  share: () => Share;
  /** Somebody waits for its bytes. */
  isAwaited: () => boolean;
}

/** The part of one holder. */
export interface Share {
  /** Waits until that many bytes fit. A share that already holds some never waits. Rejects with the signal's reason. */
  take: (bytes: number, signal: AbortSignal) => Promise<void>;
  /** Gives back everything that was taken. It may be called more than once. */
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
