import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { hash32 } from '../../model/workflow-safe/hash32.js';
import { createRandom } from './random.js';
import type { SimulatorSettings } from './settings.js';

/** A file of "weights": how well they play, and what they would say otherwise. */
const WeightsFile = z.strictObject({
  /** As the log names them. */
  name: z.string().min(1),
  skill: z.number().nonnegative(),
  seed: z.int(),
});
export type Weights = z.infer<typeof WeightsFile>;

/** The weights that the engine samples from, and the label that it was told: nothing ties the two together. */
export interface WeightStore {
  current: () => Weights;
  label: () => string;
  setLabel: (label: string) => void;
  /** Throws where the file is not there or holds none. With `half`, one part of them is loaded and the other is not. */
  load: (file: string, options?: { half: boolean }) => void;
}

const START = 'default';

export function createWeights(
  settings: Pick<SimulatorSettings, 'skill'>,
  changed: () => void,
): WeightStore {
  let loaded: Weights | null = null;
  let label = START;
  const current = (): Weights => loaded ?? { name: START, skill: settings.skill, seed: 0 };
  return {
    current,
    label: () => label,
    setLabel: (next) => {
      label = next;
    },
    load: (file, { half } = { half: false }) => {
      const read = WeightsFile.parse(JSON.parse(readFileSync(file, 'utf8')));
      const { name, seed } = current();
      loaded = half ? { name: `half ${read.name}, half ${name}`, skill: read.skill, seed } : read;
      changed();
    },
  };
}

/** A request's own stream of random numbers differs from weights to weights. Those that an engine starts with leave it as it is. */
export const seedUnder = ({ name, seed }: Weights, of: readonly number[]): number =>
  name === START && of.length === 1 ? (of[0] ?? 0) : hash32([seed, ...of]);

const LOWEST_LOGPROB = 8;

/** Of each token of a prompt but the first, under these weights: a number that any other weights give otherwise. */
export const promptLogprobs = (
  { skill, seed }: Pick<Weights, 'skill' | 'seed'>,
  prompt: readonly number[],
): number[] =>
  prompt.slice(1).map((id, i) => {
    const place = hash32([seed, Math.round(skill * 1000), prompt[i] ?? 0, id, i]);
    return -LOWEST_LOGPROB * createRandom(place)();
  });
