import { MAX_ANSWER_BYTES } from '../../platform/http/client.js';
import type { ServiceOptions } from '../adapter.js';
import { CALL_TIMEOUT_MS } from '../adapter.js';
import { createTurnRenderer } from '../chat-turn.js';
import type { GenerationRequest, GenerationService } from '../generation-service.js';
import { boundsOf, readAnswer } from '../wire/answer-stream.js';
import { createAsk } from '../wire/ask.js';
import type { OpenStream } from '../wire/generate.js';
import { createGenerate } from '../wire/generate.js';
import type { Streams } from '../wire/http.js';
import { createCalls, createStreams, serverRoot } from '../wire/http.js';
import { renamedBy } from '../wire/tokenizer.js';
import { StreamRefused } from '../wire/wire-faults.js';
import { completionBody } from './completion-body.js';
import { asCompletionChunk, generateBody } from './generate-wire.js';
import { createPictures, type VllmPictures } from './pictures.js';
import { createServerCalls } from './server-calls.js';

/** One replica with vLLM's wire: `/v1/completions` with token ids both ways, and the tokeniser beside it. */
export function createVllmService(options: ServiceOptions): GenerationService {
  const replica = options.base_url;
  const streams = createStreams(options);
  const { call, close } = createCalls(options);
  const asking = createAsk({ call }, { replica });
  const { role_map = {}, call_timeout_ms = CALL_TIMEOUT_MS } = options;
  const { context, ...calls } = createServerCalls({
    ...asking,
    replica,
    role_map,
    call_timeout_ms,
    now: options.now ?? (() => performance.now()),
  });
  const renderTurn = createTurnRenderer({ replica, renderChat: calls.renderChat });
  const { placeholder, forget, ...pictures } = createPictures({
    ...asking,
    replica,
    renderTurn,
    renamed: renamedBy(role_map),
    call_timeout_ms,
  });
  const { open, tells_text } = createWire({ ...options, open: streams.open, placeholder });
  const generate = createGenerate({
    replica,
    openStream: open,
    context,
    isPaused: calls.isPaused,
    first_token_timeout_ms: options.first_token_timeout_ms,
    idle_timeout_ms: options.idle_timeout_ms,
  });
  /** vLLM 0.33 and later: an answer of completions has named its weights. */
  let completionsName = false;
  return {
    replica,
    tells_text,
    // Stop strings of ids alone are matched on this side, and end the stream before its last chunk.
    names_spans: (request) =>
      tells_text(request) ? completionsName : request.stop_strings.length === 0,
    pictures,
    ...calls,
    describe: (signal) => {
      forget();
      return calls.describe(signal);
    },
    renderTurn,
    generate: async (request, context) => {
      const end = await generate(request, context);
      if (end.spans !== undefined && tells_text(request)) completionsName = true;
      return end;
    },
    close: async () => {
      await Promise.all([streams.close(), close()]);
    },
  };
}

/** A server without scale-out endpoints answers 403 or 404 (captures 028, 203). From then on completions are used. */
function createWire({
  base_url,
  wire = 'completions',
  max_answer_bytes = MAX_ANSWER_BYTES,
  open,
  placeholder,
}: ServiceOptions & Pick<Streams, 'open'> & Pick<VllmPictures, 'placeholder'>): {
  open: OpenStream;
  tells_text: NonNullable<GenerationService['tells_text']>;
} {
  const path = `${serverRoot(base_url)}/inference/v1/generate`;
  const opened = async (
    request: GenerationRequest,
    how: { path: string; body: Record<string, unknown>; signal: AbortSignal },
  ): ReturnType<OpenStream> => {
    const { request_id, session_id } = request;
    const body = await open(how.path, { ...how, request_id, session_id });
    const bounds = boundsOf(request, { max_answer_bytes });
    return (take) => readAnswer(body, { bounds, take });
  };
  const completion: OpenStream = (request, signal) =>
    opened(request, { path: '/completions', body: completionBody(request), signal });
  const generated = async (
    request: GenerationRequest,
    { signal, placeholder }: { signal: AbortSignal; placeholder?: readonly number[] },
  ): ReturnType<OpenStream> => {
    const read = await opened(request, { path, body: generateBody(request, placeholder), signal });
    return (take) =>
      read((event) => {
        take(asCompletionChunk(event, { tops: request.top_logprobs > 0 }));
      });
  };
  let generates = wire === 'generate';
  return {
    tells_text: ({ pictures = [] } = {}) => !generates && pictures.length === 0,
    open: async (request, signal) => {
      // Completions take no pictures.
      if ((request.pictures?.length ?? 0) > 0)
        return await generated(request, {
          signal,
          placeholder: await placeholder(request.model, signal),
        });
      if (!generates) return await completion(request, signal);
      try {
        return await generated(request, { signal });
      } catch (error) {
        const status = error instanceof StreamRefused ? error.reply.status : null;
        if (status !== 403 && status !== 404) throw error;
        const read = await completion(request, signal);
        generates = false;
        return read;
      }
    },
  };
}
