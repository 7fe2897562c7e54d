import { createWaitingLine } from './waiting-line.js';

export type Allowance = ReturnType<typeof createAllowance>;
export type Share = ReturnType<Allowance['share']>;

/**
 * A number of bytes that large values share. A value that does not fit waits in line, first come, first served. A value
 * larger than the whole allowance is alone in it.
 */
export function createAllowance(limit: number) {
  let taken = 0;
  const line = createWaitingLine((bytes: number) => {
    if (taken > 0 && taken + bytes > limit) return null;
    taken += bytes;
    return bytes;
  });
  const share = () => {
    let own = 0;
    return {
      /** Waits until so many bytes fit; a share that has some never waits. Rejects with the signal's reason. */
      take: async (bytes: number, signal: AbortSignal): Promise<void> => {
        if (own > 0) taken += bytes;
        else await line.join(bytes, signal);
        own += bytes;
      },
      /** Gives back everything that was taken. It may be called more than once. */
      giveBack: (): void => {
        taken -= own;
        own = 0;
        line.serve();
      },
    };
  };
  /** Whether a request waits for bytes. */
  const isAwaited = (): boolean => line.length() > 0;
  return { share, isAwaited };
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
