import { setTimeout as sleep } from 'node:timers/promises';
import { startEmpty } from './contenders.js';
import { measure } from './measure.js';
import type { SlicedRuns } from './report.js';
import { AT_ONCE, SLICED, TURNS } from './scenario.js';
import type { Stack } from '../bed/stack.js';

const FIRST_BATCH = { rollouts: 128, rollouts_per_slice: 64, max_in_flight: 128, turn_ms: 0 };

/** Plays one batch of empty rollouts in slices of several sizes, one after the other, round after round. */
export async function measureSlices(
  stack: Stack,
  { rollouts, rounds, say }: { rollouts: number; rounds: number; say: (line: string) => void },
): Promise<SlicedRuns[]> {
  const empty = await startEmpty(stack, { turns: TURNS, turn_slice: null, pace: AT_ONCE });
  try {
    await empty.playSliced(FIRST_BATCH);
    const measured: SlicedRuns[] = SLICED.sizes.map((size) => ({ rollouts, size, runs: [] }));
    for (let round = 1; round <= rounds; round++) {
      for (const { size, runs } of measured) {
        await sleep(500);
        const play = (): Promise<number> =>
          empty.playSliced({
            rollouts,
            rollouts_per_slice: size,
            max_in_flight: rollouts,
            turn_ms: 0,
          });
        const run = await measure(empty, { rollouts, turns: TURNS, play });
        runs.push(run);
        say(`  round ${round}, slices of ${size}: ${run.wall_s.toFixed(1)} s`);
      }
    }
    return measured;
  } finally {
    await empty.stop();
  }
}
