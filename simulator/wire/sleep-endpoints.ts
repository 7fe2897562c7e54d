import type { Engine, PauseMode } from '../engine.js';
import type { WeightStore } from '../weights.js';
import { validationRefusal } from './body-reader.js';
import { queryOf, readMode } from './read-mode.js';
import { sendJson, type Exchange } from './http-exchange.js';

/**
 * As with `--enable-sleep-mode`: an engine that is asleep is paused, and says of each pause that it is asleep. It samples
 * again once all of its memory is there. Whoever makes it compute, or gives it weights, before that ends the process.
 */
export function createSleep(
  engine: Engine,
  { weights, exit }: { weights: WeightStore; exit: () => void },
) {
  const sleeping = new Set<Memory>();
  const endpoints = {
    '/is_sleeping': {
      GET: (exchange: Exchange): void => {
        const is_sleeping = engine.isPaused() || sleeping.size > 0;
        sendJson(exchange, { status: 200, body: { is_sleeping } });
      },
    },
    '/sleep': {
      POST: async (exchange: Exchange): Promise<void> => {
        const level = readLevel(exchange);
        const mode: PauseMode = readMode(exchange);
        await engine.pause(mode);
        if (level > 0) engine.sleeps(true);
        if (level === 2 && !sleeping.has('weights')) weights.drop();
        if (level > 0) for (const one of MEMORY) sleeping.add(one);
        sendJson(exchange, { status: 200, body: { status: 'sleeping', level } });
      },
    },
    '/wake_up': {
      POST: (exchange: Exchange): void => {
        const tags = queryOf(exchange).getAll('tags');
        const woken = tags.length === 0 ? MEMORY : MEMORY.filter((one) => tags.includes(one));
        for (const one of woken) sleeping.delete(one);
        const isAwake = sleeping.size === 0;
        if (isAwake) {
          engine.sleeps(false);
          engine.resume();
        }
        const body = {
          status: isAwake ? 'awake' : 'sleeping',
          tags: tags.length === 0 ? null : tags,
        };
        sendJson(exchange, { status: 200, body });
      },
    },
  };
  return {
    endpoints,
    /** Weights are loaded or sent. */
    takesWeights: (): void => {
      if (sleeping.has('weights')) exit();
    },
    /** What waits would be computed. */
    resumes: (): void => {
      const { running, waiting } = engine.stats();
      if (sleeping.size > 0 && running + waiting > 0) exit();
    },
  };
}

const MEMORY = ['weights', 'kv_cache'] as const;
type Memory = (typeof MEMORY)[number];

function readLevel(exchange: Exchange): number {
  const level = queryOf(exchange).get('level') ?? '1';
  if (['0', '1', '2'].includes(level)) return Number(level);
  throw validationRefusal([{ where: 'level', what: `expected 0, 1 or 2, got ${level}` }], 'query');
}
