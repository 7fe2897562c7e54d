/**
 * Looks at something again and again, one look at a time. `failed` is told of one that fails, and the next one follows.
 * Returns a function that ends the looks.
 */
export function keepLooking(
  look: () => Promise<unknown>,
  { every_ms, failed = () => undefined }: { every_ms: number; failed?: (error: unknown) => void },
): () => void {
  let isLooking = false;
  const looking = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    void look()
      .catch(failed)
      .finally(() => {
        isLooking = false;
      });
  }, every_ms);
  return () => {
    clearInterval(looking);
  };
}
