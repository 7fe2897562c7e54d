/**
 * Runs items in a number of lanes, one after the other in each. Ends when all have ended, or when no more should begin.
 */
export async function inLanes<T>(
  items: readonly T[],
  {
    at_once,
    goesOn,
    run,
  }: { at_once: number; goesOn: () => boolean; run: (item: T) => Promise<void> },
): Promise<void> {
  const waiting = [...items];
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (!goesOn()) return;
      await run(next);
    }
  };
  await Promise.all(Array.from({ length: Math.min(at_once, items.length) }, lane));
}
