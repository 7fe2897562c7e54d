import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import OpenAI, { type ClientOptions } from 'openai';
import type { Response } from 'undici';
import { writeJson } from '../../platform/json/kept.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import { createAllowance, withShare } from '../../platform/waits/allowance.js';
import type { HttpClient, OpenedStream, StreamOpening } from '../../platform/http/client.js';
import { createHttpClient, MAX_ANSWER_BYTES } from '../../platform/http/client.js';
import { undici } from '../../platform/http/undici.js';
import { httpFailureIn } from '../../platform/http/failure.js';
import type { GenerationRequest } from '../generation-service.js';
import type { HttpReply } from './wire-faults.js';
import { StreamRefused, wireFault } from './wire-faults.js';

type Fetch = NonNullable<ClientOptions['fetch']>;

/** The longest timer there is. The watchdog, which handles pauses, limits the wait for headers. */
const NO_TIMEOUT_MS = 2_147_483_647;

/** uvicorn closes idle connections after 5 s. Ours close earlier, on a busy machine too, or a request meets a reset. */
const CLIENT_OPTIONS = { connect_timeout_ms: 3000, keep_alive_ms: 2000 };

export interface HttpOptions {
  /** One replica; ends in `/v1`. */
  base_url: string;
  api_key: string | null;
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

export type Calls = ReturnType<typeof createCalls>;
export type Streams = ReturnType<typeof createStreams>;

interface Sent extends Pick<GenerationRequest, 'request_id' | 'session_id'> {
  body: Record<string, unknown>;
  signal: AbortSignal;
}

/** Clients live as long as the replica; they are never created per request. */
export function createStreams({ base_url, api_key, lookup }: HttpOptions) {
  const { openStream, close } = createHttpClient({
    ...CLIENT_OPTIONS,
    ...(lookup !== undefined && { lookup }),
  });
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
    fetch: fetchThrough(openStream),
  });
  return {
    /** Begins a generation. Its body is to be read, within bounds. Rejects with what `wireFault` reads. */
    open: async (
      path: string,
      { body, request_id, session_id, signal }: Sent,
    ): Promise<Readable> => {
      let opening = null as Promise<OpenedStream> | null;
      const take: Take = (given) => {
        opening = given;
      };
      const posted = client.post(path, {
        body,
        stream: true,
        signal,
        // The package passes unknown options on to `fetch`.
        fetchOptions: { take } as object,
        headers: { 'X-Request-Id': request_id, 'X-Session-ID': session_id },
      });
      await posted.asResponse();
      const opened = await opening;
      if (opened === null) throw new Error(`${path}: nothing was sent`);
      if ('body' in opened) return opened.body;
      throw new StreamRefused(opened.refusal);
    },
    close,
  };
}

/**
 * Keeps bodies, refusals and errors from the `openai` package: it would read streams slowly, and lose the message of
 * most refusals and the cause of some errors.
 */
const fetchThrough = (openStream: HttpClient['openStream']): Fetch =>
  (async (url: string, { take, ...init }: StreamOpening & { take: Take }): Promise<Response> => {
    const opening = openStream(url, init);
    take(opening);
    await opening.catch(() => undefined);
    return new (undici().Response)(null);
    // The package requires the DOM's types; undici's classes have everything that it uses.
  }) as unknown as Fetch;

type Take = (opening: Promise<OpenedStream>) => void;

/** A pool of its own: a question about health must not queue behind generations. `keep_alive_ms`: as of clients. */
export function createCalls(
  { base_url, api_key, lookup, max_answer_bytes, answers = createAllowance(0) }: HttpOptions,
  { keep_alive_ms = CLIENT_OPTIONS.keep_alive_ms } = {},
) {
  const { exchange, close } = createHttpClient({
    ...CLIENT_OPTIONS,
    keep_alive_ms,
    ...(lookup !== undefined && { lookup }),
  });
  const headers = {
    'content-type': 'application/json',
    ...(api_key !== null && { authorization: `Bearer ${api_key}` }),
  };
  return {
    /**
     * One small exchange with its own deadline, whatever the status. Throws `GenerationUnavailable`, `ProtocolError`, or
     * the signal's reason.
     */
    call: async ({ path, body, session_id, ...call }: HttpCall): Promise<HttpReply> => {
      const sent = body === undefined ? null : writeJson(body);
      try {
        return await withShare(answers, (share) =>
          exchange({
            ...call,
            url: `${serverRoot(base_url)}${path}`,
            headers: {
              ...headers,
              ...(session_id !== undefined && { 'x-session-id': session_id }),
            },
            body: sent,
            max_bytes: max_answer_bytes ?? MAX_ANSWER_BYTES,
            share,
          }),
        );
      } catch (error) {
        if (httpFailureIn(error) === null) throw error;
        throw wireFault(error, { replica: base_url, call: `${call.method} ${path}` });
      }
    },
    close,
  };
}

/** Tokeniser, health and control routes are below the root, not below `/v1`. */
export const serverRoot = (base_url: string): string => base_url.replace(/\/v1$/, '');
