import { setTimeout as sleep } from 'node:timers/promises';
import type { Stack } from '../stack.js';
import type { ManyOptions } from './run.js';

/** Turns of this share of their mean at least and at most. */
const SPREAD = 0.3;
const NUDGE_MS = 50;

/** Draws the time of the next turns again and again, so that they are not all alike. */
export function keepPace(
  { simulator }: Stack,
  { turn_ms, tokens }: ManyOptions,
): { end: () => void } {
  if (tokens !== null) return { end: () => undefined };
  let isOver = false;
  const nudge = async (): Promise<void> => {
    while (!isOver) {
      const ms_to_first_token = turn_ms * (1 + SPREAD * (2 * Math.random() - 1));
      await simulator.change({ ms_to_first_token }).catch(() => undefined);
      await sleep(NUDGE_MS);
    }
  };
  void nudge();
  return {
    end: () => {
      isOver = true;
    },
  };
}
