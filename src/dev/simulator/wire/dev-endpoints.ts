import { z } from 'zod';
import { readBody, validationRefusal } from './body-reader.js';
import type { Engine, PauseMode } from '../engine.js';
import { sendJson, type Exchange } from './http-exchange.js';

/** Where a trainer holds an engine while it changes the weights; the same words as vLLM's development mode. */
export function createDevEndpoints(engine: Engine) {
  let weight_version = 'default';
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
        sendJson(exchange, { status: 200, body: { weight_version } });
      },
    },
    /** The label alone: no weights are behind it. */
    '/update_weight_version': {
      POST: async (exchange: Exchange): Promise<void> => {
        weight_version = await readVersion(exchange);
        sendJson(exchange, { status: 200, body: { success: true, new_version: weight_version } });
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

const NewVersion = z.looseObject({ new_version: z.string() });

async function readVersion(exchange: Exchange): Promise<string> {
  return (await readBody(exchange, NewVersion)).new_version;
}
