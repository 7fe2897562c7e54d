import type { PauseMode } from '../engine.js';
import { validationRefusal } from './body-reader.js';
import type { Exchange } from './http-exchange.js';

export const queryOf = ({ request }: Exchange): URLSearchParams =>
  new URL(request.url ?? '/', 'http://simulator').searchParams;

/** In the query; an unknown one is refused (capture 159). */
export function readMode(exchange: Exchange): PauseMode {
  const mode = queryOf(exchange).get('mode') ?? 'abort';
  if (mode === 'abort' || mode === 'wait' || mode === 'keep') return mode;
  const what = `expected abort, wait or keep, got ${mode}`;
  throw validationRefusal([{ where: 'mode', what }], 'query');
}
