import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyBed } from '../../bed/policy-bed.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import { median } from '../measure.js';
import { cpuMs } from '../process-usage.js';
import { heading, row, startStreamBed, trainOn } from './play.js';

/** Processor time of worker and Temporal server per rollout, of a stream and of a batch in alternation. */
const REPEATS = 8;
const GROUPS_PER_STEP = 4;
const STEPS = 10;
const SETTLE_MS = 2000;

export async function cost({ rounds }: { rounds: number }): Promise<void> {
  const bed = await startStreamBed('cost', {
    simulator: { tokens_per_second: 200, thinking_tokens: 20 },
  });
  const request = puzzleRequest(
    { samples: GROUPS_PER_STEP * STEPS, num_repeats: REPEATS },
    { max_in_flight: 2 * GROUPS_PER_STEP * REPEATS },
  );
  const ways = {
    batch: async (id: string) => {
      await bed.batch(id).start(request);
      await bed.batch(id).outcome();
    },
    stream: (id: string) =>
      trainOn(bed, {
        id,
        request: { ...request, groups_per_step: GROUPS_PER_STEP, epochs: 1 },
        train_ms: 0,
        publishes: false,
        hasEnough: ({ facts }) => facts.length === STEPS,
      }),
  };
  try {
    const ratios: number[] = [];
    console.log(heading(['round', 'batch: CPU ms a rollout', 'stream', 'ratio']));
    for (let round = 0; round <= rounds; round++) {
      const batch = await spent(bed, () => ways.batch(`batch-${round}`));
      const stream = await spent(bed, () => ways.stream(`stream-${round}`));
      // The first round warms up.
      if (round === 0) continue;
      ratios.push(stream / batch);
      console.log(row([round, batch.toFixed(1), stream.toFixed(1), (stream / batch).toFixed(3)]));
    }
    console.log(row(['median', '', '', median(ratios).toFixed(3)]));
  } finally {
    await bed.end();
  }
}

async function spent(bed: PolicyBed, play: () => Promise<unknown>): Promise<number> {
  const { pid } = bed.ownServer();
  const now = async (): Promise<number> => (await cpuMs(bed.worker.pid())) + (await cpuMs(pid));
  const before = await now();
  await play();
  await sleep(SETTLE_MS);
  return ((await now()) - before) / (GROUPS_PER_STEP * STEPS * REPEATS);
}
