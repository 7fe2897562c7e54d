import type {
  Delta,
  GenerateContext,
  GenerationEnd,
  GenerationRequest,
} from '../generation-service.js';
import { addTo } from '../generation-service.js';
import { withController } from '../../platform/waits/abort.js';
import type { StreamState } from './stream-assembler.js';
import { assemble, finishStream, isCounted, startStream } from './stream-assembler.js';
import { startWatchdog, type Watchdog } from './watchdog.js';
import { mayBeTooLong, unavailableFault, wireFault, type CallSite } from './wire-faults.js';

/** Opens an answer's stream; what comes of it hands over its events as `assemble` takes them, and must be called. */
export type OpenStream = (
  request: GenerationRequest,
  signal: AbortSignal,
) => Promise<(take: (chunk: unknown) => void) => Promise<void>>;

/** As the server says it now; null if it does not. Throws `GenerationUnavailable`, or the signal's reason. */
export type ContextOf = (model: string, signal: AbortSignal) => Promise<Context | null>;

interface Context {
  /** How many tokens of prompt and answer it holds. */
  tokens: number;
  /** Of a longer prompt the engine generates nothing; absent: `tokens`. */
  longest_prompt?: number;
}

interface GenerateDeps {
  replica: string;
  /** By whichever wire the server has. Rejects with what `wireFault` reads. */
  openStream: OpenStream;
  context: ContextOf;
  isPaused: () => Promise<boolean>;
  first_token_timeout_ms: number;
  idle_timeout_ms: number;
}

interface Attempt {
  deps: GenerateDeps;
  site: CallSite;
  context: GenerateContext;
  controller: AbortController;
  watchdog: Watchdog;
  sent_at: number;
}

export function createGenerate(deps: GenerateDeps) {
  return (request: GenerationRequest, context: GenerateContext): Promise<GenerationEnd> =>
    withController(context.signal, async (controller) => {
      const site = { replica: deps.replica, call: `completion ${request.request_id}` };
      const watchdog = startWatchdog({
        first_token_timeout_ms: deps.first_token_timeout_ms,
        idle_timeout_ms: deps.idle_timeout_ms,
        isPaused: deps.isPaused,
        expire: (what) => {
          controller.abort(unavailableFault(what, site));
        },
      });
      try {
        const attempt = { deps, site, context, controller, watchdog, sent_at: performance.now() };
        return await sendFitting(request, attempt);
      } catch (error) {
        // The reason of the abort, by caller or watchdog, is more informative than the connection's error.
        controller.signal.throwIfAborted();
        controller.abort();
        throw error;
      } finally {
        watchdog.stop();
      }
    });
}

/**
 * A prompt that alone fills the context gives an empty generation, as upstream's engines do. If only `max_tokens` does
 * not fit, it is sent once more with what is left.
 */
async function sendFitting(request: GenerationRequest, attempt: Attempt): Promise<GenerationEnd> {
  const { deps, site, controller, sent_at } = attempt;
  const first = await send(request, attempt);
  if (!('refused' in first)) return first;
  // Only the numbers of prompt and limit decide, because a refusal may have any words.
  const context = mayBeTooLong(first.refused)
    ? await deps.context(request.model, controller.signal)
    : null;
  const sent = { prompt_tokens: request.prompt_ids.length, max_tokens: request.max_tokens };
  const max_tokens = context === null ? null : roomIn(context, sent);
  if (max_tokens === null) throw wireFault(first.refused, site);
  if (max_tokens === 0)
    return {
      finish_reason: 'length',
      stop_reason: null,
      queue_s: secondsSince(sent_at),
      generate_s: 0,
    };
  const min_tokens = Math.min(request.min_tokens, max_tokens);
  const second = await send({ ...request, max_tokens, min_tokens }, attempt);
  if ('refused' in second) throw wireFault(second.refused, site);
  return second;
}

/** Sends it and reads the answer. `refused`: an error before any event, or as the first one. */
async function send(
  request: GenerationRequest,
  attempt: Attempt,
): Promise<GenerationEnd | { refused: unknown }> {
  const { deps, site, context, controller, watchdog, sent_at } = attempt;
  const { signal } = controller;
  let first_at = null as number | null;
  let state: StreamState = startStream({ ...request, site });
  let hasBegun = false as boolean;
  /** Not counted yet: what passes on has its place. */
  let waiting = null as Delta | null;
  /** Not the wire's. */
  let thrown = null as { error: unknown } | null;
  const take = (chunk: unknown): void => {
    hasBegun = true;
    try {
      const step = assemble(state, chunk);
      if (step.state.token_count > state.token_count) {
        first_at ??= performance.now();
        watchdog.arrived();
      }
      state = step.state;
      if (step.delta !== null) {
        waiting ??= { token_ids: [], logprobs: [], text: '' };
        addTo(waiting, step.delta);
      }
      if (waiting === null || !isCounted(state)) return;
      const counted = waiting;
      waiting = null;
      context.onDelta(counted);
    } catch (error) {
      thrown = { error };
      throw error;
    }
  };
  try {
    const read = await deps.openStream(request, signal);
    await read(take);
  } catch (error) {
    if (thrown !== null) throw error;
    if (!hasBegun) return { refused: error };
    // A finish reason that has arrived and is counted stands, whatever the connection does afterwards: the tokens are
    // complete, and another attempt would sample beyond an end of sequence.
    const isOver = state.finish_reason !== null && isCounted(state);
    const fault = signal.aborted ? null : wireFault(error, site);
    if (!isOver) signal.throwIfAborted();
    if (fault !== null && (!isOver || fault.type !== 'GenerationUnavailable')) throw fault;
  }
  context.signal.throwIfAborted();
  return {
    ...finishStream(state),
    ...(state.spans !== null && { spans: state.spans }),
    queue_s: first_at === null ? secondsSince(sent_at) : (first_at - sent_at) / 1000,
    generate_s: first_at === null ? 0 : secondsSince(first_at),
  };
}

const secondsSince = (at: number): number => (performance.now() - at) / 1000;

/** How many tokens fit into the context. null if the request fits: then its length is not the reason. */
export function roomIn(
  { tokens, longest_prompt = tokens }: Context,
  { prompt_tokens, max_tokens }: { prompt_tokens: number; max_tokens: number },
): number | null {
  const room = prompt_tokens > longest_prompt ? 0 : tokens - prompt_tokens;
  return room < max_tokens ? Math.max(0, room) : null;
}
