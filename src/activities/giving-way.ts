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
  /** Others wait for what this attempt has. */
  isCrowded: () => boolean;
  /** The attempt before this one has given way, so this one looks whether the wait is over, and no longer. */
  hasGivenWay: boolean;
  end: (error: GaveWay) => void;
}

/** Ends the lease when an idle wait lasts while others need what it has. */
export function createIdling({ isCrowded, hasGivenWay, end }: Crowd) {
  let patience = hasGivenWay ? 1 : PATIENCE_LOOKS;
  let looking: NodeJS.Timeout | undefined;
  const leave = (): void => {
    clearInterval(looking);
    looking = undefined;
  };
  const idles: Idles = (isOver) => {
    if (looking !== undefined && isOver === null) patience = PATIENCE_LOOKS;
    leave();
    if (isOver === null) return;
    let looks = 0;
    looking = setInterval(() => {
      looks += 1;
      if (looks >= patience && !isOver() && isCrowded()) end(new GaveWay());
    }, LOOK_EVERY_MS);
  };
  return { idles, leave };
}
