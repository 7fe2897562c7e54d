import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import OpenAI, { type ClientOptions } from 'openai';
import type { Response } from 'undici';
import { writeJson } from '../../platform/json/kept.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import { createAllowance, withShare } from '../../platform/waits/allowance.js';
import type { Answer, HttpClient, StreamOpening } from '../../platform/http/client.js';
import { createHttpClient, MAX_ANSWER_BYTES } from '../../platform/http/client.js';
import { undici } from '../../platform/http/undici.js';
import type { StreamBounds } from '../../platform/http/event-stream.js';
import { HttpFailure, httpFailureIn } from '../../platform/http/failure.js';
import type { GenerationRequest } from '../generation-service.js';
import { completionBody } from './completion-body.js';
import type { Arrivals } from './completion-stream.js';
import type { WireName } from './known-events.js';
import { readCompletion } from './completion-stream.js';
import { generateBody } from './generate-wire.js';
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
  /** Resolves its name; absent: as the system does. */
  lookup?: LookupFunction;
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

/** Hands over a stream's events until its end, and must be called. Rejects with what broke the stream. */
export type ReadStream = (arrivals: Arrivals) => Promise<void>;

export interface Http {
  /** Rejects with errors of the `openai` package. */
  openCompletion: (completion: GenerationRequest, signal: AbortSignal) => Promise<ReadStream>;
  /**
   * The same through `/inference/v1/generate`; its events have the shape of completions. `placeholder`: the ids that
   * stand for a picture of the request.
   */
  openGenerate: (
    completion: GenerationRequest,
    options: { signal: AbortSignal; placeholder?: readonly number[] },
  ) => Promise<ReadStream>;
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
  const { base_url, api_key, connections, lookup, max_answer_bytes = MAX_ANSWER_BYTES } = options;
  const client_options = { ...CLIENT_OPTIONS, ...(lookup !== undefined && { lookup }) };
  const completions = createHttpClient({ ...client_options, connections: connections ?? null });
  // A separate pool: a question about health must not queue behind generations.
  const control = createHttpClient(client_options);
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
  const open = async (
    completion: GenerationRequest,
    { wire, path, body, signal }: WireRequest,
  ): Promise<ReadStream> => {
    let opened: Readable | null = null;
    const take = (body: Readable): void => {
      opened = body;
    };
    const posted = client.post(path, {
      body,
      stream: true,
      signal,
      // The package passes unknown options on to `fetch`.
      fetchOptions: { take } as object,
      headers: {
        'X-Request-Id': completion.request_id,
        'X-Session-ID': completion.session_id,
      },
    });
    // Its own reader of streams takes several times as long as all else that is done with a token.
    await posted.asResponse();
    return (arrivals) =>
      readCompletion(opened as unknown as Readable, {
        wire,
        bounds: boundsOf(completion, max_answer_bytes),
        tops: completion.top_logprobs > 0,
        arrivals,
      });
  };
  return {
    openCompletion: (completion, signal) => {
      const body = completionBody(completion);
      return open(completion, { wire: 'completions', path: '/completions', body, signal });
    },
    openGenerate: (completion, { signal, placeholder }) => {
      const path = `${serverRoot(base_url)}/inference/v1/generate`;
      const body = generateBody(completion, placeholder);
      return open(completion, { wire: 'generate', path, body, signal });
    },
    call: createCall({ ...options, max_answer_bytes }, control),
    close: async () => {
      await Promise.all([completions.close(), control.close()]);
    },
  };
}

interface WireRequest {
  wire: WireName;
  path: string;
  body: Record<string, unknown>;
  signal: AbortSignal;
}

function boundsOf(
  { max_tokens, prompt_ids }: GenerationRequest,
  max_answer_bytes: number,
): StreamBounds {
  const { token, prompt_id, others } = STREAM_BYTES;
  const max_bytes = max_tokens * token + prompt_ids.length * prompt_id + others;
  return { max_bytes, max_event_bytes: Math.min(max_bytes, max_answer_bytes) };
}

/** Statuses that a `Response` can have. */
const isStatus = (status: number): boolean => status !== 304 && status <= 599;

/**
 * Keeps the body of a stream from the `openai` package, and gives it refusals in the one shape that it reads: of all
 * others than `body.error` it loses the message.
 */
function fetchThrough({ openStream }: Pick<HttpClient, 'openStream'>): Fetch {
  const throughClient = async (
    url: string,
    { take, ...init }: StreamOpening & { take: (body: Readable) => void },
  ): Promise<Response> => {
    const opened = await openStream(url, init);
    if ('body' in opened) {
      take(opened.body);
      return new (undici().Response)(null);
    }
    const { status, text, header } = opened.refusal;
    if (!isStatus(status))
      throw new HttpFailure(`answered with status ${status}`, { kind: 'broken' });
    const headers = ['date', 'retry-after', 'retry-after-ms'].flatMap((name) => {
      const value = header(name);
      return value === null ? [] : [[name, value] as [string, string]];
    });
    return new (undici().Response)(JSON.stringify({ error: readServerError(text) }), {
      status,
      headers,
    });
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
