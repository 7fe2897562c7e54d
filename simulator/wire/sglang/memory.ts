import { z } from 'zod';
import type { Engine } from '../../engine.js';
import type { WeightStore } from '../../weights.js';
import { readBody } from '../body-reader.js';
import { sendText, type Exchange } from '../http-exchange.js';
import type { FrontEnd } from './front-end.js';

/**
 * As with `--enable-memory-saver`. It does not say what it has released. Its process ends where a part is released or
 * resumed twice, where it is not idle, and where it computes or loads without memory.
 */
export function createMemoryEndpoints({
  engine,
  weights,
  front,
  keeps_weights,
  exit,
}: {
  engine: Engine;
  weights: WeightStore;
  front: FrontEnd;
  keeps_weights: boolean;
  exit: () => void;
}) {
  const released = new Set<Part>();
  const say = (exchange: Exchange): void => {
    sendText(exchange, { status: 200, type: 'application/json', text: 'null' });
  };
  const endpoints = {
    '/release_memory_occupation': {
      POST: async (exchange: Exchange): Promise<void> => {
        const parts = await partsOf(exchange);
        if (!front.isIdle() || parts.some((one) => released.has(one))) exit();
        for (const one of parts) released.add(one);
        if (parts.includes('weights') && !keeps_weights) weights.drop();
        engine.sleeps(true);
        say(exchange);
      },
    },
    '/resume_memory_occupation': {
      POST: async (exchange: Exchange): Promise<void> => {
        const parts = await partsOf(exchange);
        if (parts.some((one) => !released.delete(one))) exit();
        engine.sleeps(released.size > 0);
        say(exchange);
      },
    },
  };
  /** Weights are loaded or sent. */
  const takesWeights = (): void => {
    if (released.has('weights')) exit();
  };
  return { endpoints, takesWeights };
}

const PARTS = ['kv_cache', 'weights', 'cuda_graph'] as const;
type Part = (typeof PARTS)[number];

const Tags = z.looseObject({ tags: z.array(z.enum(PARTS)).nullish() });

async function partsOf(exchange: Exchange): Promise<readonly Part[]> {
  const { tags } = await readBody(exchange, Tags);
  return tags == null || tags.length === 0 ? PARTS : tags;
}
