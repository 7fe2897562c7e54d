import { formatNumber } from './number-text.js';

/** How a batch or a stream gets slots of workers beside others. */
export interface Slots {
  /** Tasks of all of them that wait for a slot; absent: the server does not say. */
  queued?: number;
  /** From its request; absent: an older worker planned it. */
  priority?: number;
  share?: number;
}

const USUAL = { priority: 3, share: 1 };

/** The waiting turns, and an unusual priority or share; empty: nothing of these. */
export function slotsText({
  queued = 0,
  priority = USUAL.priority,
  share = USUAL.share,
}: Slots): string {
  return [
    ...(queued > 0 ? [`waiting for slots ${formatNumber(queued)} (of all)`] : []),
    ...(priority === USUAL.priority ? [] : [`priority ${priority}`]),
    ...(share === USUAL.share ? [] : [`share ${share}`]),
  ].join('   ');
}
