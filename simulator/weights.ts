import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { hash32 } from '../src/model/workflow-safe/hash32.js';
import { createBucket, placeOf } from '../src/platform/s3/bucket.js';
import { createRandom } from './random.js';
import type { SimulatorSettings } from './settings.js';

/** A file of "weights": how well they play, and an offset of what they say. */
export const WeightsFile = z.strictObject({
  /** Their name in the log. */
  name: z.string().min(1),
  skill: z.number().nonnegative(),
  seed: z.int(),
});
export type Weights = z.infer<typeof WeightsFile>;

/** The weights that the engine samples from, and the label that it was given; nothing ties the two together. */
export interface WeightStore {
  current: () => Weights;
  /** The label of one of the processes behind the URL. */
  label: (front_end?: number) => string;
  setLabel: (label: string, front_end?: number) => void;
  /** Throws if they are invalid. With `half`, only one part of the weights is loaded. */
  load: (read: Weights, options?: { half: boolean }) => void;
  /** Their memory is somebody else's: what is sampled from it is nobody's policy, until others are loaded. */
  drop: () => void;
  /** What a model's name stands for: an adapter on the weights, or the weights alone. */
  under: (model: string | null) => Weights;
  /** Adapters that are loaded, by name. */
  adapters: () => string[];
  /** From a file of weights. Throws if that is missing or invalid. */
  loadAdapter: (adapter: { name: string; file: string }) => void;
  /** One that was unloaded, from where it was; false: it was never there. */
  reloadAdapter: (name: string) => boolean;
  /** A request that runs under it goes on. */
  unloadAdapter: (name: string) => void;
  /** A transfer by a trainer. Until it is over, one request that computes ends the process. */
  isTransferring: () => boolean;
  /** These throw, as a worker of the engine does. */
  startTransfer: () => void;
  receive: (part: { weights: Weights; part: number; parts: number }) => void;
  /** Its worker failed in the middle. What comes next is refused, until an update has begun and ended. */
  breakTransfer: () => void;
  endTransfer: () => void;
}

/** The object of weights below an address of S3. */
export const WEIGHTS_OBJECT = 'model.safetensors';

/** From a file, or from S3 as engines with a streamer do. Throws if it is missing or invalid. */
export async function readWeights(place: string): Promise<Weights> {
  const objects = placeOf(place);
  if (objects === null) return WeightsFile.parse(JSON.parse(await readFile(place, 'utf8')));
  const bucket = createBucket(objects);
  try {
    const found = await bucket.get(WEIGHTS_OBJECT);
    if (found === null) throw new Error(`there is no ${place}/${WEIGHTS_OBJECT}`);
    return WeightsFile.parse(JSON.parse(found.toString()));
  } finally {
    bucket.close();
  }
}

const START = 'default';
const DROPPED: Weights = { name: 'dropped', skill: 0, seed: -1 };
const ACTIVE = 'a weight update is already active';
/** What layers of vLLM 0.32 say that a broken update has left apart. */
const TORN = "'Parameter' object has no attribute 'weight_loader'";

const halfOf = ({ name, skill }: Weights, before: Weights): Weights => ({
  name: `half ${name}, half ${before.name}`,
  skill,
  seed: before.seed,
});

export function createWeights(
  settings: Pick<SimulatorSettings, 'skill'>,
  changed: () => void,
): WeightStore {
  let loaded: Weights | null = null;
  const labels = new Map<number, string>();
  let arrived: Set<number> | null = null;
  let before: Weights | null = null;
  let is_torn = false;
  const current = (): Weights => loaded ?? { name: START, skill: settings.skill, seed: 0 };
  return {
    current,
    label: (front_end = 0) => labels.get(front_end) ?? START,
    setLabel: (label, front_end = 0) => {
      labels.set(front_end, label);
    },
    load: (read, { half } = { half: false }) => {
      if (arrived !== null) throw new Error(ACTIVE);
      if (is_torn) throw new Error(TORN);
      loaded = half ? halfOf(read, current()) : read;
      changed();
    },
    drop: () => {
      loaded = DROPPED;
      changed();
    },
    ...createAdapters(current),
    isTransferring: () => arrived !== null || is_torn,
    startTransfer: () => {
      if (arrived !== null) throw new Error(ACTIVE);
      arrived = new Set();
      before = current();
    },
    receive: ({ weights, part, parts }) => {
      if (arrived === null || before === null) throw new Error('no weight update is active');
      if (is_torn) throw new Error(TORN);
      arrived.add(part);
      loaded = arrived.size < parts ? halfOf(weights, before) : weights;
      changed();
    },
    breakTransfer: () => {
      arrived = null;
      is_torn = true;
    },
    endTransfer: () => {
      if (arrived === null) throw new Error('no weight update is active');
      arrived = null;
      is_torn = false;
    },
  };
}

/** An adapter that was made for other weights than those below it is no whole policy. */
function createAdapters(
  base: () => Weights,
): Pick<WeightStore, 'under' | 'adapters' | 'loadAdapter' | 'reloadAdapter' | 'unloadAdapter'> {
  const known = new Map<string, { weights: Weights; on: string }>();
  const loaded = new Set<string>();
  return {
    under: (model) => {
      const adapter = known.get(model ?? '');
      if (adapter === undefined) return base();
      const { weights, on } = adapter;
      return on === base().name ? weights : halfOf(weights, base());
    },
    adapters: () => [...loaded],
    loadAdapter: ({ name, file }) => {
      const weights = WeightsFile.parse(JSON.parse(readFileSync(file, 'utf8')));
      known.set(name, { weights, on: base().name });
      loaded.add(name);
    },
    reloadAdapter: (name) => {
      if (known.has(name)) loaded.add(name);
      return known.has(name);
    },
    unloadAdapter: (name) => {
      loaded.delete(name);
    },
  };
}

/** A request's random stream depends on the weights. Those that an engine starts with leave it as it is. */
export const seedUnder = ({ name, seed }: Weights, of: readonly number[]): number =>
  name === START && of.length === 1 ? (of[0] ?? 0) : hash32([seed, ...of]);

const LOWEST_LOGPROB = 8;

/** For each token of a prompt except the first, a number that differs for any other weights. */
export const promptLogprobs = (
  { skill, seed }: Pick<Weights, 'skill' | 'seed'>,
  prompt: readonly number[],
): number[] =>
  prompt.slice(1).map((id, i) => {
    const place = hash32([seed, Math.round(skill * 1000), prompt[i] ?? 0, id, i]);
    return -LOWEST_LOGPROB * createRandom(place)();
  });
