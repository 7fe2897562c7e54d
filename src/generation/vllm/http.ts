import OpenAI, { type ClientOptions } from 'openai';
import { Response } from 'undici';
import { writeJson } from '../../platform/json/kept.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import { createAllowance, withShare } from '../../platform/waits/allowance.js';
import type { Answer, EventFetch, HttpClient } from '../../platform/http/client.js';
import { createHttpClient, MAX_ANSWER_BYTES } from '../../platform/http/client.js';
import type { StreamBounds } from '../../platform/http/event-stream.js';
import { httpFailureIn } from '../../platform/http/failure.js';
import type { GenerationRequest } from '../generation-service.js';
import { completionBody } from './completion-body.js';
import { asCompletionChunk, generateBody } from './generate-wire.js';
import { readServerError, wireFault, type CallSite } from './wire-faults.js';

type Fetch = NonNullable<ClientOptions['fetch']>;

/** The longest timer there is. The watchdog, which handles pauses, limits the wait for headers. */
const NO_TIMEOUT_MS = 2_147_483_647;

/**
 * uvicorn closes idle connections after 5 s. Ours must close earlier, even on a busy machine, or a request meets a
 * reset.
 */
const CLIENT_OPTIONS = { connect_timeout_ms: 3000, keep_alive_ms: 2000 } as const;

/**
 * A token takes some 350 bytes on the wire, an id of a prompt's echo 7, a proxy's keep-alive comment 20. A stream of
 * ten times as much is no generation.
 */
const STREAM_BYTES = { token: 4096, prompt_id: 32, others: 2 ** 20 } as const;

export interface HttpOptions {
  /** One replica; ends in `/v1`. */
  base_url: string;
  api_key: string | null;
  /** Limit of connections for completions. Default: none, because workers limit their generations. */
  connections?: number;
  /** Size limit of an answer, and of one event of a stream. */
  max_answer_bytes?: number;
  /** The allowance that large answers of all replicas share. */
  answers?: Allowance;
}

interface HttpCall {
  method: 'GET' | 'POST';
  /** Below the server's root, which is the base URL without `/v1`. */
  path: string;
  body?: unknown;
  /** Sent as `X-Session-ID`. */
  session_id?: string;
  timeout_ms: number;
  signal: AbortSignal;
}

export type HttpReply = Pick<Answer, 'status' | 'text' | 'header'>;

export interface Http {
  /** The parsed events of the stream. Rejects with errors of the `openai` package. */
  openCompletion: (
    completion: GenerationRequest,
    signal: AbortSignal,
  ) => Promise<AsyncIterable<unknown>>;
  /**
   * The same through `/inference/v1/generate`; its events have the shape of completions. `placeholder`: the ids that
   * stand for a picture of the request.
   */
  openGenerate: (
    completion: GenerationRequest,
    options: { signal: AbortSignal; placeholder?: readonly number[] },
  ) => Promise<AsyncIterable<unknown>>;
  /**
   * One small exchange with its own deadline, whatever the status. Throws `GenerationUnavailable`, `ProtocolError`, or
   * the signal's reason.
   */
  call: (call: HttpCall) => Promise<HttpReply>;
  /** Drops all connections; a request in flight fails. */
  close: () => Promise<void>;
}

/** Clients live as long as the replica; they are never created per request. */
export function createHttp(options: HttpOptions): Http {
  const { base_url, api_key, connections, max_answer_bytes = MAX_ANSWER_BYTES } = options;
  const completions = createHttpClient({ ...CLIENT_OPTIONS, connections: connections ?? null });
  // A separate pool: a question about health must not queue behind generations.
  const control = createHttpClient(CLIENT_OPTIONS);
  const client = new OpenAI({
    baseURL: base_url,
    apiKey: api_key ?? 'EMPTY',
    // Otherwise read from OPENAI_* variables, and sent to any server.
    organization: null,
    project: null,
    adminAPIKey: null,
    webhookSecret: null,
    maxRetries: 0,
    timeout: NO_TIMEOUT_MS,
    logLevel: 'off',
    fetch: fetchThrough(completions),
  });
  const open = (
    completion: GenerationRequest,
    { path, body, signal }: { path: string; body: Record<string, unknown>; signal: AbortSignal },
  ) =>
    client.post<AsyncIterable<unknown>>(path, {
      body,
      stream: true,
      signal,
      // The package passes unknown options on to `fetch`.
      fetchOptions: { bounds: boundsOf(completion, max_answer_bytes) } as object,
      headers: {
        'X-Request-Id': completion.request_id,
        'X-Session-ID': completion.session_id,
      },
    });
  return {
    openCompletion: (completion, signal) =>
      open(completion, { path: '/completions', body: completionBody(completion), signal }),
    openGenerate: async (completion, { signal, placeholder }) => {
      const path = `${serverRoot(base_url)}/inference/v1/generate`;
      const body = generateBody(completion, placeholder);
      return mapped(await open(completion, { path, body, signal }));
    },
    call: createCall({ ...options, max_answer_bytes }, control),
    close: async () => {
      await Promise.all([completions.close(), control.close()]);
    },
  };
}

async function* mapped(chunks: AsyncIterable<unknown>): AsyncGenerator {
  for await (const chunk of chunks) yield asCompletionChunk(chunk);
}

function boundsOf(
  { max_tokens, prompt_ids }: GenerationRequest,
  max_answer_bytes: number,
): StreamBounds {
  const { token, prompt_id, others } = STREAM_BYTES;
  const max_bytes = max_tokens * token + prompt_ids.length * prompt_id + others;
  return { max_bytes, max_event_bytes: Math.min(max_bytes, max_answer_bytes) };
}

/**
 * The `openai` package reads only `body.error` of a refusal and loses all other shapes, so they are converted to that
 * one.
 */
function fetchThrough({ fetch }: Pick<HttpClient, 'fetch'>): Fetch {
  const throughClient = async (url: string, init: EventFetch): Promise<Response> => {
    const response = await fetch(url, init);
    if (response.ok) return response;
    const error = readServerError(await response.text());
    const { status, headers } = response;
    return new Response(JSON.stringify({ error }), { status, headers });
  };
  // The package requires the DOM's types; undici's classes have everything that it uses.
  return throughClient as unknown as Fetch;
}

function createCall(
  {
    base_url,
    api_key,
    max_answer_bytes: max_bytes,
    answers = createAllowance(0),
  }: HttpOptions & { max_answer_bytes: number },
  { exchange }: Pick<HttpClient, 'exchange'>,
): Http['call'] {
  const root = serverRoot(base_url);
  const headers = {
    'content-type': 'application/json',
    ...(api_key !== null && { authorization: `Bearer ${api_key}` }),
  };
  return async ({ path, body, session_id, ...call }) => {
    const site: CallSite = { replica: base_url, call: `${call.method} ${path}` };
    const url = `${root}${path}`;
    const sent = body === undefined ? null : writeJson(body);
    try {
      return await withShare(answers, (share) =>
        exchange({
          ...call,
          url,
          headers: { ...headers, ...(session_id !== undefined && { 'x-session-id': session_id }) },
          body: sent,
          max_bytes,
          share,
        }),
      );
    } catch (error) {
      throw httpFailureIn(error) === null ? error : wireFault(error, site);
    }
  };
}

/** Tokeniser, health and control routes are below the root, not below `/v1`. */
const serverRoot = (baseUrl: string): string => baseUrl.replace(/\/v1$/, '');
