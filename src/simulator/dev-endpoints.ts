import { createBodyReader, readBody, STRING_TYPE, validationRefusal } from './body-reader.js';
import type { Engine, PauseMode } from './engine.js';
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
  const expected = "'abort', 'wait' or 'keep'";
  const problem = {
    type: 'literal_error',
    loc: 'mode',
    msg: `Input should be ${expected}`,
    input: mode,
    ctx: { expected },
  };
  throw validationRefusal([problem], 'query');
}

async function readVersion(exchange: Exchange): Promise<string> {
  const body = await readBody(exchange);
  const reader = createBodyReader(body);
  const version = reader.text('new_version');
  const { new_version: input } = body;
  if (input === undefined)
    reader.add({ type: 'missing', loc: 'new_version', msg: 'Field required', input });
  if (input === null) reader.add({ ...STRING_TYPE, loc: 'new_version', input });
  reader.check();
  return version ?? '';
}
