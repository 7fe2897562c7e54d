import type { GenerateContext, GenerationEnd, GenerationRequest } from '../generation-service.js';
import { withController } from '../../platform/waits/abort.js';
import { limitNamed, roomIn } from './context-limit.js';
import type { Http } from './http.js';
import { assemble, finishStream, startStream, type StreamState } from './stream-assembler.js';
import { startWatchdog, type Watchdog } from './watchdog.js';
import { flatError, tooLongOf, unavailableFault, wireFault, type CallSite } from './wire-faults.js';

interface GenerateDeps {
  replica: string;
  /** Opens the stream, by whichever wire the server has. */
  openStream: Http['openCompletion'];
  /** A model's limit from the server's list; null if the list has none. */
  contextLength: (model: string, signal: AbortSignal) => Promise<number | null>;
  isPaused: () => Promise<boolean>;
  first_token_timeout_ms: number;
  idle_timeout_ms: number;
}

/** One request in progress. */
interface Attempt {
  site: CallSite;
  request: GenerationRequest;
  context: GenerateContext;
  controller: AbortController;
  watchdog: Watchdog;
  sent_at: number;
}

/** `generate` of one replica: one streamed completion, watched, checked, and passed on chunk by chunk. */
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
      const sent_at = performance.now();
      try {
        const opened = await open(deps, { site, request, controller });
        if (opened === null) return emptyGeneration(sent_at);
        return await receive(opened, {
          site,
          request: opened.request,
          context,
          controller,
          watchdog,
          sent_at,
        });
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

interface Opened {
  /** A server may refuse a request in its first event. */
  first: IteratorResult<unknown>;
  chunks: AsyncIterator<unknown>;
  /** The request as the engine accepted it. */
  request: GenerationRequest;
}

/**
 * Opens the stream. null if the prompt alone fills the context: an empty generation, as upstream's engines give. If
 * only `max_tokens` does not fit, it is sent once more with what is left.
 */
async function open(
  deps: GenerateDeps,
  { site, request, controller: { signal } }: Pick<Attempt, 'site' | 'request' | 'controller'>,
): Promise<Opened | null> {
  const send = async (request: GenerationRequest): Promise<Opened> => {
    const stream = await deps.openStream(request, signal);
    const chunks = stream[Symbol.asyncIterator]();
    return { first: await pull(chunks), chunks, request };
  };
  try {
    return await send(request);
  } catch (error) {
    const room = await roomAfter(error, { deps, request, signal });
    if (room === null) throw wireFault(error, site);
    if (room === 0) return null;
    return await send(shortened(request, room)).catch((again: unknown) => {
      throw wireFault(again, site);
    });
  }
}

/**
 * How many tokens fit into the engine's context, if that is why it refused. Only the numbers of prompt and limit
 * decide, because a refusal may have any words. null: another reason, or an unknown limit.
 */
async function roomAfter(
  error: unknown,
  {
    deps,
    request,
    signal,
  }: { deps: GenerateDeps; request: GenerationRequest; signal: AbortSignal },
): Promise<number | null> {
  const said = tooLongOf(error);
  if (said === null) return null;
  const sent = { prompt_tokens: request.prompt_ids.length, max_tokens: request.max_tokens };
  const limit = limitNamed(said, sent) ?? (await deps.contextLength(request.model, signal));
  return limit === null ? null : roomIn(limit, sent);
}

const shortened = (request: GenerationRequest, max_tokens: number): GenerationRequest => ({
  ...request,
  max_tokens,
  min_tokens: Math.min(request.min_tokens, max_tokens),
});

function emptyGeneration(sentAt: number): GenerationEnd {
  return {
    finish_reason: 'length',
    stop_reason: null,
    queue_s: secondsSince(sentAt),
    generate_s: 0,
  };
}

/** Reads by hand instead of with `for await`: only errors of the wire are wire faults, not those of `onDelta`. */
async function receive(
  { first, chunks }: Omit<Opened, 'request'>,
  attempt: Attempt,
): Promise<GenerationEnd> {
  const { request, context, controller, watchdog, sent_at } = attempt;
  let first_at: number | null = null;
  let state = startStream({
    replica: attempt.site.replica,
    request_id: request.request_id,
    prompt_ids: request.prompt_ids,
    has_pictures: (request.pictures?.length ?? 0) > 0,
    max_tokens: request.max_tokens,
    logprobs: request.logprobs,
    top_logprobs: request.top_logprobs,
  });
  for (let next: IteratorResult<unknown> | null = first; next?.done === false;) {
    const step = assemble(state, next.value);
    if (step.state.token_count > state.token_count) {
      first_at ??= performance.now();
      watchdog.arrived();
    }
    state = step.state;
    if (step.delta !== null) context.onDelta(step.delta);
    next = await nextChunk(chunks, { site: attempt.site, state });
  }
  // The `openai` package ends its loop silently when the request is aborted.
  if (context.signal.aborted || state.finish_reason === null) controller.signal.throwIfAborted();
  return {
    ...finishStream(state),
    ...(state.spans !== null && { spans: state.spans }),
    queue_s: first_at === null ? secondsSince(sent_at) : (first_at - sent_at) / 1000,
    generate_s: first_at === null ? 0 : secondsSince(first_at),
  };
}

/** Throws the errors of the wire, and an error that came as an event. */
async function pull(chunks: AsyncIterator<unknown>): Promise<IteratorResult<unknown>> {
  const next = await chunks.next();
  const error = next.done === true ? null : flatError(next.value);
  if (error !== null) throw error;
  return next;
}

/**
 * null: the stream is over. A finish reason that has arrived counts, whatever the connection does afterwards: the tokens are
 * complete, and another attempt would sample beyond an end of sequence.
 */
async function nextChunk(
  chunks: AsyncIterator<unknown>,
  { site, state }: { site: CallSite; state: StreamState },
): Promise<IteratorResult<unknown> | null> {
  try {
    return await pull(chunks);
  } catch (error) {
    const fault = wireFault(error, site);
    if (state.finish_reason !== null && fault.type === 'GenerationUnavailable') return null;
    throw fault;
  }
}

const secondsSince = (at: number): number => (performance.now() - at) / 1000;
