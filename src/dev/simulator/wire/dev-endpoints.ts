import { z } from 'zod';
import { readBody, validationRefusal } from './body-reader.js';
import type { Engine, PauseMode } from '../engine.js';
import { errorBody, Refusal, sendJson, sendText, type Exchange } from './http-exchange.js';
import { describeError } from '../../../platform/errors.js';
import type { FaultSpec } from '../settings.js';
import type { WeightStore } from '../weights.js';

/** Where a trainer can hold an engine while it changes the weights, in the terms of vLLM's development mode. */
export function createDevEndpoints(engine: Engine, weights: WeightStore) {
  return {
    '/pause': {
      POST: async (exchange: Exchange): Promise<void> => {
        await engine.pause(readMode(exchange));
        sendJson(exchange, { status: 200, body: { status: 'paused' } });
      },
    },
    '/resume': {
      POST: (exchange: Exchange): void => {
        engine.resume();
        sendJson(exchange, { status: 200, body: { status: 'resumed' } });
      },
    },
    '/is_paused': {
      GET: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { is_paused: engine.isPaused() } });
      },
    },
    '/weight_info': {
      GET: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { weight_version: weights.label() } });
      },
    },
    ...createSleep(engine),
    '/reset_prefix_cache': {
      POST: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { success: true } });
      },
    },
    '/collective_rpc': {
      POST: async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
        const { kwargs } = await readBody(exchange, ReloadWeights);
        try {
          if (fault?.fault !== 'load_nothing')
            weights.load(kwargs.weights_path, { half: fault?.fault === 'load_half' });
        } catch (error) {
          throw workerFailed(describeError(error));
        }
        if (fault?.fault === 'load_half' && fault.says === 'failure')
          throw workerFailed('CUDA error: an illegal memory access was encountered');
        sendJson(exchange, { status: 200, body: { results: [null] } });
      },
    },
    /** Only the label, without any weights. */
    '/update_weight_version': {
      POST: async (exchange: Exchange): Promise<void> => {
        const new_version = await readVersion(exchange);
        weights.setLabel(new_version);
        sendJson(exchange, { status: 200, body: { success: true, new_version } });
      },
    },
  };
}

/** As with `--enable-sleep-mode`: an engine that is asleep is paused, too. */
function createSleep(engine: Engine) {
  let is_sleeping = false;
  return {
    '/is_sleeping': {
      GET: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { is_sleeping } });
      },
    },
    '/sleep': {
      POST: async (exchange: Exchange): Promise<void> => {
        await engine.pause(readMode(exchange));
        is_sleeping = true;
        sendText(exchange, { status: 200, type: null, text: '' });
      },
    },
    '/wake_up': {
      POST: (exchange: Exchange): void => {
        is_sleeping = false;
        engine.resume();
        sendText(exchange, { status: 200, type: null, text: '' });
      },
    },
  };
}

/** In the query; an unknown one is refused (capture 159). */
function readMode({ request }: Exchange): PauseMode {
  const mode = new URL(request.url ?? '/', 'http://simulator').searchParams.get('mode') ?? 'abort';
  if (mode === 'abort' || mode === 'wait' || mode === 'keep') return mode;
  const what = `expected abort, wait or keep, got ${mode}`;
  throw validationRefusal([{ where: 'mode', what }], 'query');
}

const ReloadWeights = z.looseObject({
  method: z.literal('reload_weights'),
  kwargs: z.looseObject({ weights_path: z.string() }),
});

/** Capture 172. */
function workerFailed(why: string): Refusal {
  const message = `Call to collective_rpc method failed: Worker failed with error '${why}', please check the stack trace above for the root cause`;
  const body = errorBody({ message, type: 'InternalServerError', param: null, code: 500 });
  return new Refusal({ status: 500, body });
}

const NewVersion = z.looseObject({ new_version: z.string() });

async function readVersion(exchange: Exchange): Promise<string> {
  return (await readBody(exchange, NewVersion)).new_version;
}
