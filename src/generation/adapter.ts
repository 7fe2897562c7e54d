import type { Allowed } from '../platform/http/allowed.js';
import type { GenerationService } from './generation-service.js';
import type { WeightControl } from './weight-control.js';
import type { HttpOptions } from './wire/http.js';

/** An engine's kind: how it is asked to sample, and how its weights are changed. */
export interface Adapter {
  service: (options: ServiceOptions) => GenerationService;
  control: (options: ControlOptions) => WeightControl;
}

export interface ServiceOptions extends HttpOptions {
  /** vLLM's route that samples; default: completions. `generate` for servers that have it. */
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

export const CALL_TIMEOUT_MS = 60_000;

export interface ControlOptions {
  /** The replica's base URL, which ends in `/v1`. */
  replica: string;
  /** Base of the control routes: below the replica's root, or elsewhere. */
  control_url: string | null;
  api_key: string | null;
  control_api_key: string | null;
  /** Served name; null: the first. */
  model: string | null;
  answers?: HttpOptions['answers'];
  /** Resolves the names of these URLs; absent: as the system does. */
  lookupFor?: Allowed['lookupFor'];
}
