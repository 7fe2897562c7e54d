/** Activity slots of this process, by task queue. A count of its own, because the SDK tells nobody how many are taken. */
export interface Slots {
  /** An attempt of that queue begins; call the result when it ends. */
  enter: (task_queue: string) => () => void;
  /** Somebody may wait for one. */
  areTaken: (task_queue: string) => boolean;
}

export function createSlots(slots: ReadonlyMap<string, number>): Slots {
  const running = new Map<string, number>();
  const runningOn = (queue: string): number => running.get(queue) ?? 0;
  return {
    enter: (queue) => {
      running.set(queue, runningOn(queue) + 1);
      return () => {
        running.set(queue, runningOn(queue) - 1);
      };
    },
    areTaken: (queue) => runningOn(queue) >= (slots.get(queue) ?? Infinity),
  };
}
