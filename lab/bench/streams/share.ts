import type { PolicyBed } from '../../bed/policy-bed.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import { eventually } from '../../bed/waiting.js';
import { median } from '../measure.js';
import { heading, row, startStreamBed } from './play.js';

/**
 * A stream and a batch on the eight slots of one worker: how long a step takes beside a batch of many rollouts, and how
 * long a small batch takes beside a stream of many, each relative to the same alone, on the same stack.
 */
const SLOTS = 8;
const STEP_ROLLOUTS = 8;
const MANY = 64;

/** Every rollout takes as many turns, of about a quarter of a second each. */
const REQUEST = { max_rollout_turns: 10, generation: { max_new_tokens: 64, seed: 3 } } as const;

interface Measured {
  alone_s: number;
  beside_s: number;
}

const seconds = async (play: () => Promise<unknown>): Promise<number> => {
  const began = performance.now();
  await play();
  return (performance.now() - began) / 1000;
};

const stop = async (bed: PolicyBed, id: string): Promise<void> => {
  const handle = bed.server().client.workflow.getHandle(id);
  await handle.signal('stop');
  await handle.result();
};

const untilRunning = (bed: PolicyBed, { id, least }: { id: string; least: number }) =>
  eventually(`rollouts of ${id}`, async () => {
    const handle = bed.server().client.workflow.getHandle(id);
    const progress = await handle.query<Record<string, number>>('progress').catch(() => null);
    return (progress?.['running'] ?? progress?.['in_flight'] ?? 0) >= least;
  });

const streamOf = (groups_per_step: number): Record<string, unknown> => ({
  ...puzzleRequest({ samples: 20, num_repeats: 2 }, REQUEST),
  groups_per_step,
});

/** The median of so many steps, after the first. */
async function stepSeconds(
  bed: PolicyBed,
  { id, steps, from }: { id: string; steps: number; from: number },
): Promise<number> {
  const took: number[] = [];
  for (let step = from; step < from + steps; step++)
    took.push(await seconds(() => bed.stream(id).step(step, step)));
  return median(took);
}

async function steps(bed: PolicyBed, count: number): Promise<Measured> {
  const id = 'stream';
  await bed.stream(id).start(streamOf(STEP_ROLLOUTS / 2));
  await bed.stream(id).step(0, 0);
  const alone_s = await stepSeconds(bed, { id, steps: count, from: 1 });
  const batch = bed.batch('many');
  // Enough for all steps.
  await batch.start({
    ...puzzleRequest({ samples: MANY, num_repeats: 2 }, REQUEST),
    max_in_flight: MANY,
  });
  await untilRunning(bed, { id: 'many', least: MANY });
  const beside_s = await stepSeconds(bed, { id, steps: count, from: count + 1 });
  await stop(bed, id);
  await stop(bed, 'many');
  return { alone_s, beside_s };
}

async function batches(bed: PolicyBed): Promise<Measured> {
  const small = (id: string): Promise<number> =>
    seconds(async () => {
      await bed.batch(id).start(puzzleRequest({ samples: STEP_ROLLOUTS, num_repeats: 1 }, REQUEST));
      await bed.batch(id).outcome();
    });
  const alone_s = await small('small-alone');
  await bed.stream('crowd').start({ ...streamOf(MANY / 4), max_lag: 4, max_in_flight: MANY });
  await untilRunning(bed, { id: 'crowd', least: MANY / 2 });
  const beside_s = await small('small-beside');
  await stop(bed, 'crowd');
  return { alone_s, beside_s };
}

export async function share({ steps: count }: { steps: number }): Promise<void> {
  console.log(heading(['server', 'what', 's alone', 's beside the other', 'ratio']));
  for (const shares of [false, true]) {
    const bed = await startStreamBed(`share-${shares}`, {
      shares,
      skill: 0,
      simulator: { tokens_per_second: 60, thinking_tokens: 8, skill: 0 },
      worker: { turn_slice: '500ms', max_generations: SLOTS },
    });
    try {
      const server = shares ? 'with shares' : 'in order of arrival';
      const measured = { 'a step': await steps(bed, count), 'a batch of 8': await batches(bed) };
      for (const [what, { alone_s, beside_s }] of Object.entries(measured))
        console.log(
          row([
            server,
            what,
            alone_s.toFixed(1),
            beside_s.toFixed(1),
            (beside_s / alone_s).toFixed(1),
          ]),
        );
    } finally {
      await bed.end();
    }
  }
}
