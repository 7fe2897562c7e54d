export type Slots = ReturnType<typeof createSlots>;

/** Activity slots of this process, by task queue. A count of its own, because the SDK tells nobody how many are taken. */
export function createSlots(slots: ReadonlyMap<string, number>) {
  const running = new Map<string, number>();
  const runningOn = (queue: string): number => running.get(queue) ?? 0;
  return {
    /** An attempt of that queue begins; call the result when it ends. */
    enter: (queue: string) => {
      running.set(queue, runningOn(queue) + 1);
      return (): void => {
        running.set(queue, runningOn(queue) - 1);
      };
    },
    /** Whether another activity may wait for a slot. */
    areTaken: (queue: string) => runningOn(queue) >= (slots.get(queue) ?? Infinity),
  };
}
