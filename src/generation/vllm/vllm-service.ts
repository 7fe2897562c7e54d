import { createTurnRenderer } from '../chat-turn.js';
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
  /** Roles that the chat template is given in the place of others. */
  role_map?: Readonly<Record<string, string>>;
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
    role_map: options.role_map ?? {},
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
  const renderTurn = createTurnRenderer({ replica, renderChat: calls.renderChat });
  return { replica, ...calls, renderTurn, isPaused, generate, close: http.close };
}
