import { setImmediate as nextTurn } from 'node:timers/promises';
import { orAborted } from '../../platform/waits/abort.js';
import { createNews } from '../news.js';

/**
 * Bytes of bodies that are no calls yet, counted as they come. Each rollout has a share: what one program sends, or does
 * not send, keeps no other one waiting.
 */
export interface Bodies {
  /** One body more of a rollout's programs. */
  open: (rollout: object) => Body;
}

export interface Body {
  /** Counts what has come. */
  add: (bytes: number) => void;
  /** When more may come; null: now. Rejects with the signal's reason. */
  room: (signal: AbortSignal) => Promise<void> | null;
  /** Runs behind those of the same rollout that came before it, and gives other rollouts their turn in between. */
  inTurn: <T>(run: () => Promise<T>) => Promise<T>;
  /** Nobody reads it any longer. It may be called more than once. */
  close: () => void;
}

const MIB = 1024 * 1024;
const OF_ALL = 256 * MIB;
const OF_ROLLOUT = 32 * MIB;
/** Any body may have so many, and a rollout's oldest one all that it needs: else those that are begun would wait for each other. */
const OF_ANY = 64 * 1024;

interface Rollout {
  taken: number;
  /** The oldest first. */
  open: Set<Body>;
  reading: Promise<unknown>;
}

/** In bytes: of all rollouts together, and of one. */
export function createBodies({ of_all = OF_ALL, of_rollout = OF_ROLLOUT } = {}): Bodies {
  const rollouts = new WeakMap<object, Rollout>();
  const given = createNews();
  let taken = 0;
  return {
    open: (key) => {
      const rollout = rollouts.get(key) ?? {
        taken: 0,
        open: new Set(),
        reading: Promise.resolve(),
      };
      rollouts.set(key, rollout);
      let own = 0;
      const fits = (): boolean => {
        if (own <= OF_ANY) return true;
        const [oldest] = rollout.open;
        return oldest === body || (rollout.taken <= of_rollout && taken <= of_all);
      };
      const count = (bytes: number): void => {
        own += bytes;
        rollout.taken += bytes;
        taken += bytes;
      };
      const body: Body = {
        add: count,
        room: (signal) => (fits() ? null : roomFor(fits, signal)),
        inTurn: (run) => {
          const turn = rollout.reading.then(() => nextTurn()).then(run);
          rollout.reading = turn.catch(() => undefined);
          return turn;
        },
        close: () => {
          if (!rollout.open.delete(body)) return;
          count(-own);
          given.tell();
        },
      };
      rollout.open.add(body);
      return body;
    },
  };

  async function roomFor(fits: () => boolean, signal: AbortSignal): Promise<void> {
    while (!fits()) await orAborted(given.next(), signal);
  }
}
