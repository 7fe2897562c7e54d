import { describeError } from '../platform/errors.js';

/** Looks at something again and again, one look at a time. `failed`: why one has failed. Returns what ends the looks. */
export function keepLooking(
  look: () => Promise<unknown>,
  { every_ms, failed = () => undefined }: { every_ms: number; failed?: (why: string) => void },
): () => void {
  let isLooking = false;
  const looking = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    void look()
      .catch((error: unknown) => {
        failed(describeError(error));
      })
      .finally(() => {
        isLooking = false;
      });
  }, every_ms);
  return () => {
    clearInterval(looking);
  };
}
