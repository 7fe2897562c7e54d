import { setTimeout as sleep } from 'node:timers/promises';
import type { Looked, Subject } from './subject.js';

const NAMED_WITHIN_S = 10;
/** Batches and streams look at their rollouts after a fifteenth of their age, and a look and its answer take a while. */
const SHARE_OF_AGE = 15;
const LOOK_TAKES_S = 5;

/** How long it may stand still, or wait, before clients have to show why. */
export const patienceOf = ({ age_s }: Pick<Looked, 'age_s'>): number =>
  Math.max(NAMED_WITHIN_S, age_s / SHARE_OF_AGE + LOOK_TAKES_S);

interface Watch {
  stop: () => Promise<void>;
}

/** Looks until it is stopped. What is open, plays nothing and names nothing is reported, once for each standstill. */
export function watchWaits(
  { look, played }: Pick<Subject, 'look' | 'played'>,
  {
    onSilence,
    every_ms = 500,
    now = () => performance.now(),
  }: { onSilence: (text: string) => void; every_ms?: number; now?: () => number },
): Watch {
  const end = new AbortController();
  const watching = (async () => {
    let before = await played();
    let moved_at = now();
    let isReported = false;
    while (!end.signal.aborted) {
      await sleep(every_ms);
      const bytes = await played();
      const { isOpen, waits, age_s } = await look();
      if (bytes !== before || !isOpen || waits !== null) {
        before = bytes;
        moved_at = now();
        isReported = false;
        continue;
      }
      const still_s = (now() - moved_at) / 1000;
      if (isReported || still_s < patienceOf({ age_s })) continue;
      isReported = true;
      onSilence(`nothing has been played for ${still_s.toFixed(0)} s, and nothing is named`);
    }
  })();
  // An error of the last look is that of whoever stops it.
  watching.catch(() => undefined);
  return {
    stop: async () => {
      end.abort();
      await watching;
    },
  };
}
