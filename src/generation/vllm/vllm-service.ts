import { APIError } from 'openai';
import { createTurnRenderer } from '../chat-turn.js';
import type { GenerationService } from '../generation-service.js';
import { createGenerate } from './generate.js';
import { createHttp, type Http, type HttpOptions } from './http.js';
import { createPictures, type VllmPictures } from './pictures.js';
import { createServerCalls, renamedBy } from './server-calls.js';

const CALL_TIMEOUT_MS = 60_000;

export interface VllmServiceOptions extends HttpOptions {
  /** Default: completions. `generate` for servers that have it. */
  wire?: 'completions' | 'generate';
  first_token_timeout_ms: number;
  /** Between two tokens. */
  idle_timeout_ms: number;
  /** For one `renderChat`, `tokenize` or `detokenize`; default 60 s. */
  call_timeout_ms?: number;
  /** Replaces roles for the chat template. */
  role_map?: Readonly<Record<string, string>>;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}

/** One replica with vLLM's wire: `/v1/completions` with token ids both ways, and the tokeniser beside it. */
export function createVllmService(options: VllmServiceOptions): GenerationService {
  const replica = options.base_url;
  const http = createHttp(options);
  const { role_map = {}, call_timeout_ms = CALL_TIMEOUT_MS } = options;
  const { isPaused, contextLength, ...calls } = createServerCalls({
    replica,
    call: http.call,
    role_map,
    call_timeout_ms,
    now: options.now ?? (() => performance.now()),
  });
  const renderTurn = createTurnRenderer({ replica, renderChat: calls.renderChat });
  const { placeholder, forget, ...pictures } = createPictures({
    replica,
    call: http.call,
    renderTurn,
    renamed: renamedBy(role_map),
    call_timeout_ms,
  });
  const wire = createWire({ ...http, placeholder }, options.wire ?? 'completions');
  const generate = createGenerate({
    replica,
    openStream: wire.open,
    contextLength,
    isPaused,
    first_token_timeout_ms: options.first_token_timeout_ms,
    idle_timeout_ms: options.idle_timeout_ms,
  });
  const { tells_text } = wire;
  const describe: GenerationService['describe'] = (signal) => {
    forget();
    return calls.describe(signal);
  };
  const { close } = http;
  return {
    replica,
    tells_text,
    pictures,
    ...calls,
    describe,
    renderTurn,
    isPaused,
    generate,
    close,
  };
}

/** A server without scale-out endpoints answers 403 or 404 (captures 028, 203). From then on completions are used. */
function createWire(
  { openCompletion, openGenerate, placeholder }: Http & Pick<VllmPictures, 'placeholder'>,
  wire: 'completions' | 'generate',
): { open: Http['openCompletion']; tells_text: NonNullable<GenerationService['tells_text']> } {
  let generates = wire === 'generate';
  return {
    tells_text: ({ pictures = [] } = {}) => !generates && pictures.length === 0,
    open: async (request, signal) => {
      // Completions take no pictures.
      if ((request.pictures?.length ?? 0) > 0)
        return await openGenerate(request, {
          signal,
          placeholder: await placeholder(request.model, signal),
        });
      if (!generates) return await openCompletion(request, signal);
      try {
        return await openGenerate(request, { signal });
      } catch (error) {
        if (!(error instanceof APIError) || (error.status !== 403 && error.status !== 404))
          throw error;
        const read = await openCompletion(request, signal);
        generates = false;
        return read;
      }
    },
  };
}
