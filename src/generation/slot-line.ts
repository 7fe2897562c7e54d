/** What has slots: how many of them are taken. */
interface Loaded {
  load: number;
}

interface SlotRequest {
  session_id: string;
  signal: AbortSignal;
}

interface Waiter<M> {
  session_id: string;
  grant: (member: M) => void;
}

export interface SlotLine<M extends Loaded> {
  /** Waits for a slot; rejects with the signal's reason. Whoever gets one gives it back. */
  take: (request: SlotRequest) => Promise<M>;
  giveBack: (member: M) => void;
  /** There may be room that was not there before. */
  serve: () => void;
}

/**
 * First come, first served: whoever is first takes any slot that there is, so that nobody behind could have been served
 * instead. `choose` says where a request finds room; null: nowhere.
 */
export function createSlotLine<M extends Loaded>(
  choose: (sessionId: string) => M | null,
): SlotLine<M> {
  const waiting: Waiter<M>[] = [];

  const serve = (): void => {
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      const member = choose(first.session_id);
      if (member === null) return;
      waiting.shift();
      member.load += 1;
      first.grant(member);
    }
  };

  return {
    serve,
    take: ({ session_id, signal }) =>
      new Promise((resolve, reject) => {
        const leave = (): void => {
          waiting.splice(waiting.indexOf(waiter), 1);
          reject(signal.reason as Error);
        };
        const waiter: Waiter<M> = {
          session_id,
          grant: (member) => {
            signal.removeEventListener('abort', leave);
            resolve(member);
          },
        };
        signal.addEventListener('abort', leave, { once: true });
        waiting.push(waiter);
        serve();
      }),
    giveBack: (member) => {
      member.load -= 1;
      serve();
    },
  };
}
