import OpenAI, { type ClientOptions } from 'openai';
import { Agent, fetch as undiciFetch, request, Response as UndiciResponse } from 'undici';
import type { RequestInit as UndiciRequestInit } from 'undici';
import type { GenerationRequest } from '../generation-service.js';
import { completionBody } from './completion-body.js';
import { readServerError, unavailableFault, wireFault, type CallSite } from './wire-faults.js';

type Fetch = NonNullable<ClientOptions['fetch']>;

/** The longest timer there is: waiting for headers is bounded by the watchdog, which knows about pauses. */
const NO_TIMEOUT_MS = 2_147_483_647;

/** uvicorn closes idle connections after 5 s: ours must be gone before, also on a busy machine, or a request meets a reset. */
const AGENT_OPTIONS = {
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: 2000,
  connect: { timeout: 3000 },
} as const;

export interface HttpOptions {
  /** One replica; ends in `/v1`. */
  base_url: string;
  api_key: string | null;
  /** At most so many connections for completions; none is set by default, since workers bound their generations. */
  connections?: number;
}

interface HttpCall {
  method: 'GET' | 'POST';
  /** Below the server's root, which is the base URL without `/v1`. */
  path: string;
  body?: unknown;
  timeout_ms: number;
  signal: AbortSignal;
}

export interface HttpReply {
  status: number;
  text: string;
  header: (name: string) => string | null;
}

export interface Http {
  /** The parsed events of the stream. Rejects with errors of the `openai` package. */
  openCompletion: (
    completion: GenerationRequest,
    signal: AbortSignal,
  ) => Promise<AsyncIterable<unknown>>;
  /** One small exchange with its own deadline, whatever the status. Throws `GenerationUnavailable`, or the signal's reason. */
  call: (call: HttpCall) => Promise<HttpReply>;
  /** Drops all connections; a request in flight fails. */
  close: () => Promise<void>;
}

/** Clients live as long as the replica: made once, never per request. */
export function createHttp({ base_url, api_key, connections }: HttpOptions): Http {
  const completions = new Agent({ ...AGENT_OPTIONS, connections: connections ?? null });
  // A pool of its own: a question about health must not queue behind generations.
  const control = new Agent(AGENT_OPTIONS);
  const client = new OpenAI({
    baseURL: base_url,
    apiKey: api_key ?? 'EMPTY',
    // Else read from OPENAI_* variables, and sent to whatever server this is.
    organization: null,
    project: null,
    adminAPIKey: null,
    webhookSecret: null,
    maxRetries: 0,
    timeout: NO_TIMEOUT_MS,
    logLevel: 'off',
    fetch: fetchThrough(completions),
  });
  return {
    openCompletion: (completion, signal) =>
      client.post<AsyncIterable<unknown>>('/completions', {
        body: completionBody(completion),
        stream: true,
        signal,
        headers: {
          'X-Request-Id': completion.request_id,
          'X-Session-ID': completion.session_id,
        },
      }),
    call: createCall({ base_url, api_key, agent: control }),
    close: async () => {
      await Promise.all([completions.destroy(), control.destroy()]);
    },
  };
}

/**
 * undici's own fetch, since an Agent works only with the version it comes with. The `openai` package reads nothing but
 * `body.error` of a refusal and loses every other shape: all are brought to that one.
 */
function fetchThrough(dispatcher: Agent): Fetch {
  const throughAgent = async (url: string, init: UndiciRequestInit): Promise<UndiciResponse> => {
    const response = await undiciFetch(url, { ...init, dispatcher });
    if (response.ok) return response;
    const error = readServerError(await response.text());
    return new UndiciResponse(JSON.stringify({ error }), {
      status: response.status,
      headers: response.headers,
    });
  };
  // The package asks for the DOM's types; undici's classes do what it uses of them.
  return throughAgent as unknown as Fetch;
}

function createCall(to: { base_url: string; api_key: string | null; agent: Agent }): Http['call'] {
  const root = serverRoot(to.base_url);
  const headers = {
    'content-type': 'application/json',
    ...(to.api_key !== null && { authorization: `Bearer ${to.api_key}` }),
  };
  return ({ method, path, body, timeout_ms, signal }) =>
    withController(signal, async (controller) => {
      const site: CallSite = { replica: to.base_url, call: `${method} ${path}` };
      const timer = setTimeout(() => {
        controller.abort(unavailableFault(`no answer within ${timeout_ms / 1000} s`, site));
      }, timeout_ms);
      try {
        const reply = await request(`${root}${path}`, {
          method,
          headers,
          body: body === undefined ? null : JSON.stringify(body),
          dispatcher: to.agent,
          signal: controller.signal,
        });
        const text = await reply.body.text();
        const header = (name: string): string | null => [reply.headers[name]].flat()[0] ?? null;
        return { status: reply.statusCode, text, header };
      } catch (error) {
        controller.signal.throwIfAborted();
        throw wireFault(error, site);
      } finally {
        clearTimeout(timer);
      }
    });
}

/** Tokeniser, health and control routes are below the root, not below `/v1`. */
const serverRoot = (baseUrl: string): string => baseUrl.replace(/\/v1\/?$/, '');

/**
 * Runs one request under a controller of its own that follows `signal`. The `openai` package leaves its listeners on the
 * signal it is given, so a signal that outlives requests must never reach it.
 */
export async function withController<T>(
  signal: AbortSignal,
  run: (controller: AbortController) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const follow = (): void => {
    controller.abort(signal.reason);
  };
  signal.addEventListener('abort', follow, { once: true });
  try {
    return await run(controller);
  } finally {
    signal.removeEventListener('abort', follow);
  }
}
