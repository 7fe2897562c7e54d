import { withController } from '../platform/waits/abort.js';

/**
 * Says that the attempt waits and nothing can be lost meanwhile: for an engine that is paused or asleep, or for weights.
 * The function says whether that is over although nobody has said so; null: it is over.
 */
export type Idles = (isOver: (() => boolean) | null) => void;

/** Shorter waits are not worth another attempt: pauses of updates take seconds. */
const PATIENCE_LOOKS = 15;
const LOOK_EVERY_MS = 1000;
/** When it looks again, as after a fault that lasts. */
export const BACK_AFTER_MS = 15_000;

/**
 * An attempt gives its slot to others while it waits. Nothing has failed, so no journal and no count of tries has it;
 * another attempt waits on.
 */
export class GaveWay extends Error {
  override readonly name = 'GaveWay';

  constructor() {
    super('waits without a slot, because others need it');
  }
}

interface Crowd {
  signal: AbortSignal;
  /** Others wait for what this attempt holds. */
  isCrowded: () => boolean;
  /** The attempt before this one has given way, so this one looks whether the wait is over, and no longer. */
  hasGivenWay: boolean;
}

/** Runs until an idle wait lasts while others need what it holds: then its signal aborts, and `GaveWay` is thrown. */
export async function givingWay<T>(
  { signal, isCrowded, hasGivenWay }: Crowd,
  run: (given: { signal: AbortSignal; idles: Idles }) => Promise<T>,
): Promise<T> {
  return await withController(signal, async (controller) => {
    let patience = hasGivenWay ? 1 : PATIENCE_LOOKS;
    let looking: NodeJS.Timeout | undefined;
    const idles: Idles = (isOver) => {
      if (looking !== undefined && isOver === null) patience = PATIENCE_LOOKS;
      clearInterval(looking);
      looking = undefined;
      if (isOver === null) return;
      let looks = 0;
      looking = setInterval(() => {
        looks += 1;
        if (looks >= patience && !isOver() && isCrowded()) controller.abort(new GaveWay());
      }, LOOK_EVERY_MS);
    };
    try {
      return await run({ signal: controller.signal, idles });
    } finally {
      clearInterval(looking);
    }
  });
}
