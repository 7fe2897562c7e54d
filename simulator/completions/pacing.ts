import type { SimulatorSettings } from '../settings.js';

/** About how many tokens a chunk has, and the time between chunks, so that a paced stream costs little. */
const TOKENS_PER_CHUNK = 8;
const SHORTEST_MS = 10;
const LONGEST_MS = 100;

export interface Pace {
  /** The number of tokens. */
  total: number;
  /** How many tokens are due now; increases up to `total`. */
  onDue: (count: number) => void;
  /** All of them were due. */
  onEnd: () => void;
}

export interface Pacing {
  stop: () => void;
  /** While it is frozen, no time passes. */
  freeze: (isFrozen: boolean) => void;
}

const ENDED: Pacing = { stop: () => undefined, freeze: () => undefined };

/**
 * Makes tokens due at the engine's speed, the first after `ms_to_first_token`. Without limits, all at once and before
 * this returns.
 */
export function startPacing(
  settings: Pick<SimulatorSettings, 'tokens_per_second' | 'ms_to_first_token'>,
  { total, onDue, onEnd }: Pace,
): Pacing {
  const { tokens_per_second: speed, ms_to_first_token } = settings;
  if (speed === 0 && ms_to_first_token === 0) {
    if (total > 0) onDue(total);
    onEnd();
    return ENDED;
  }
  const gap = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (TOKENS_PER_CHUNK * 1000) / speed));
  let timer: NodeJS.Timeout | undefined;
  let due = 0;
  let firstAt = 0;
  let frozenAt: number | null = null;
  const wait = (ms: number): void => {
    timer = setTimeout(tick, ms);
  };
  const tick = (): void => {
    const now = performance.now();
    if (due === 0) firstAt = now;
    const count = speed === 0 ? total : 1 + Math.floor(((now - firstAt) * speed) / 1000);
    if (Math.min(count, total) > due) {
      due = Math.min(count, total);
      onDue(due);
    }
    if (due < total) {
      wait(gap);
      return;
    }
    timer = undefined;
    onEnd();
  };
  wait(ms_to_first_token);
  const freeze = (isFrozen: boolean): void => {
    const now = performance.now();
    if (timer === undefined || isFrozen === (frozenAt !== null)) return;
    clearTimeout(timer);
    if (frozenAt !== null) {
      firstAt += now - frozenAt;
      wait(due === 0 ? ms_to_first_token : gap);
    }
    frozenAt = isFrozen ? now : null;
  };
  return {
    stop: () => {
      clearTimeout(timer);
      timer = undefined;
    },
    freeze,
  };
}
