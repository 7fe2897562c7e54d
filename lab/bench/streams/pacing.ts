import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyBed, PolicyBedOptions } from '../../bed/policy-bed.js';
import { median } from '../measure.js';
import { equalSamples } from '../samples.js';
import {
  heading,
  MAX_NEW_TOKENS,
  now_s,
  pace,
  ROLLOUT,
  row,
  startStreamBed,
  THINKING_TOKENS,
  trainOn,
} from './play.js';

/**
 * The cost of pacing: a stream compared with an unpaced loop, with its trainer alone, and with a batch for each step.
 */
const REPEATS = 4;
const GROUPS_PER_STEP = 8;
const MAX_LAG = 2;
const IN_FLIGHT = GROUPS_PER_STEP * (MAX_LAG + 1) * REPEATS;

type Engine = NonNullable<PolicyBedOptions['simulator']>;

const startBed = (name: string, simulator: Engine): Promise<PolicyBed> =>
  startStreamBed(name, {
    skill: 0,
    simulator: { skill: 0, thinking_tokens: THINKING_TOKENS, ...simulator },
  });

const request = {
  ...ROLLOUT,
  samples: equalSamples(8),
  num_repeats: REPEATS,
  generation: { max_new_tokens: MAX_NEW_TOKENS },
};
const stream = { ...request, groups_per_step: GROUPS_PER_STEP, max_lag: MAX_LAG };

/** Two stacks run at the same time and so share the machine equally. */
async function beside<A, B>(
  engine: Engine,
  [one, other]: readonly [(bed: PolicyBed) => Promise<A>, (bed: PolicyBed) => Promise<B>],
): Promise<[A, B]> {
  const beds = await Promise.all([startBed('one', engine), startBed('other', engine)]);
  try {
    return await Promise.all([one(beds[0]), other(beds[1])]);
  } finally {
    await Promise.all(beds.map((bed) => bed.end()));
  }
}

const follow = (
  bed: PolicyBed,
  { train_ms, for_s }: { train_ms: number; for_s: number },
): ReturnType<typeof trainOn> => {
  const until = now_s() + for_s;
  const hasEnough = (): boolean => now_s() > until;
  return trainOn(bed, { id: 'stream', request: stream, train_ms, publishes: false, hasEnough });
};

/** An engine with less room than there are rollouts; the trainer takes each step as soon as it is ready. */
async function engineBound(for_s: number): Promise<string> {
  const from_s = now_s() + 45;
  const until = from_s + for_s;
  const [paced, unpaced] = await beside({ tokens_per_second: 60, max_num_seqs: 32 }, [
    async (bed) => {
      await follow(bed, { train_ms: 0, for_s: until - now_s() });
      return await pace(bed.journals('stream'), { from_s, for_s });
    },
    async (bed) => {
      const samples = equalSamples(160);
      await bed.batch('batch').start({ ...request, samples, max_in_flight: IN_FLIGHT });
      await sleep(1000 * (until - now_s()));
      return await pace(bed.journals('batch'), { from_s, for_s });
    },
  ]);
  return row([
    'engine-bound, tokens/s',
    paced.toFixed(0),
    'unpaced',
    unpaced.toFixed(0),
    (paced / unpaced).toFixed(3),
  ]);
}

/** An engine with room to spare, and a trainer with a fixed time per step. */
async function trainerBound(for_s: number): Promise<string> {
  const train_ms = 4000;
  const bed = await startBed('trainer', { tokens_per_second: 400, thinking_tokens: [4, 200] });
  try {
    const { came } = await follow(bed, { train_ms, for_s });
    const times = came.slice(3).map((at, i) => at - (came[i + 2] ?? at));
    const own = 1000 / train_ms;
    const measured = 1000 / median(times);
    return row([
      'trainer-bound, steps/s',
      measured.toFixed(3),
      "trainer's own",
      own.toFixed(3),
      (measured / own).toFixed(3),
    ]);
  } finally {
    await bed.end();
  }
}

/** Lengths of 1:50, an engine with room to spare, a trainer that takes each step as soon as it is ready. */
async function stragglers(for_s: number): Promise<string> {
  const [streamed, batched] = await beside({ tokens_per_second: 100 }, [
    async (bed) => {
      const { came } = await follow(bed, { train_ms: 0, for_s });
      return (came.length - 1) / (((came.at(-1) ?? 0) - (came[0] ?? 0)) / 1000);
    },
    async (bed) => {
      const began = now_s();
      let steps = 0;
      for (; now_s() - began < for_s; steps++) {
        const batch = bed.batch(`step-${steps}`);
        await batch.start(request);
        await batch.outcome();
      }
      return steps / (now_s() - began);
    },
  ]);
  return row([
    'lengths 1:50, steps/s',
    streamed.toFixed(3),
    'a batch each',
    batched.toFixed(3),
    (streamed / batched).toFixed(2),
  ]);
}

const COLUMNS = ['bound by', 'stream', 'beside', '', 'ratio'];

export async function pacing({ for_s }: { for_s: number }): Promise<void> {
  console.log(
    `${for_s} s each; load average ${loadavg()[0]?.toFixed(1) ?? '?'}\n\n${heading(COLUMNS)}`,
  );
  for (const play of [engineBound, trainerBound, stragglers]) console.log(await play(for_s));
}
