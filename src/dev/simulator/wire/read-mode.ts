import type { PauseMode } from '../engine.js';
import { validationRefusal } from './body-reader.js';
import type { Exchange } from './http-exchange.js';

/** In the query; an unknown one is refused (capture 159). */
export function readMode({ request }: Exchange): PauseMode {
  const mode = new URL(request.url ?? '/', 'http://simulator').searchParams.get('mode') ?? 'abort';
  if (mode === 'abort' || mode === 'wait' || mode === 'keep') return mode;
  const what = `expected abort, wait or keep, got ${mode}`;
  throw validationRefusal([{ where: 'mode', what }], 'query');
}
