import type { GenerationService } from '../generation-service.js';
import { createGenerate } from './generate.js';
import { createHttp, type HttpOptions } from './http.js';
import { createServerCalls } from './server-calls.js';

const CALL_TIMEOUT_MS = 60_000;

export interface VllmServiceOptions extends HttpOptions {
  first_token_timeout_ms: number;
  /** Between two tokens. */
  idle_timeout_ms: number;
  /** For one `renderChat`, `tokenize` or `detokenize`; default 60 s. */
  call_timeout_ms?: number;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}

/** One replica that speaks vLLM's wire: `/v1/completions` with token ids both ways, and the tokeniser beside it. */
export function createVllmService(options: VllmServiceOptions): GenerationService {
  const replica = options.base_url;
  const http = createHttp(options);
  const { isPaused, contextLength, ...calls } = createServerCalls({
    replica,
    call: http.call,
    call_timeout_ms: options.call_timeout_ms ?? CALL_TIMEOUT_MS,
    now: options.now ?? (() => performance.now()),
  });
  const generate = createGenerate({
    replica,
    openCompletion: http.openCompletion,
    contextLength,
    isPaused,
    first_token_timeout_ms: options.first_token_timeout_ms,
    idle_timeout_ms: options.idle_timeout_ms,
  });
  return { replica, ...calls, isPaused, generate, close: http.close };
}
