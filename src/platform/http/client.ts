import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import type { Agent, Pool } from 'undici';
import { withController } from '../waits/abort.js';
import type { Share } from '../waits/allowance.js';
import { shortened } from '../errors.js';
import { withoutSecrets, withoutSecretsIfCut } from '../secrets.js';
import { decoded, errorText, wholeText, type Pace } from './body.js';
import { brokenBy, HttpFailure } from './failure.js';
import { explained } from './tls.js';
import { undici } from './undici.js';

export type HttpClient = ReturnType<typeof createHttpClient>;

export const MAX_ANSWER_BYTES = 16 * 2 ** 20;

export interface HttpClientOptions {
  connect_timeout_ms: number;
  /**
   * How long an idle connection is kept, whatever the server announces. Less than the server does, since an exchange on
   * a closing connection fails. 0: a new connection for each exchange.
   */
  keep_alive_ms?: number;
  pace?: Pace;
  /** Resolves names; absent: as the system does. */
  lookup?: LookupFunction;
}

export interface Exchange {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  url: string;
  headers?: Record<string, string>;
  /** The pieces of a stream, as they come. */
  body?: string | Readable | null;
  /** From connecting to the last byte. */
  timeout_ms: number;
  signal: AbortSignal;
  /** Decoded size limit of a 2xx answer, which is held as a whole. Of other answers the beginning is kept. */
  max_bytes: number;
  /** A large answer takes its bytes from it before it is read. */
  share?: Share | undefined;
}

export interface Answer {
  status: number;
  /** The target of a redirect, in words. */
  text: string;
  header: (name: string) => string | null;
  set_cookies: string[];
}

export interface StreamOpening {
  method: string;
  headers: Iterable<[string, string]>;
  body: string;
  signal: AbortSignal;
}

/** The body of a 2xx answer, which its caller must read or destroy, or what any other said. */
export type OpenedStream =
  { body: Readable } | { refusal: Pick<Answer, 'status' | 'text' | 'header'> };

/**
 * The only HTTP client. Every exchange has a deadline or a signal, and a bounded answer. No redirect is followed, and
 * no answer contains a secret of this process. Callers decide what a status means. Throws `HttpFailure`, or the reason
 * of the exchange's signal.
 */
export function createHttpClient({ pace, lookup, ...options }: HttpClientOptions) {
  const { connect_timeout_ms, keep_alive_ms } = options;
  const { pools, factory } = keepPools();
  const agent = new (undici().Agent)({
    factory,
    // Each exchange has its own deadline; the agent's default would cut answers of more than five minutes.
    headersTimeout: 0,
    bodyTimeout: 0,
    pipelining: keep_alive_ms === 0 ? 0 : 1,
    ...(keep_alive_ms !== undefined &&
      keep_alive_ms > 0 && { keepAliveTimeout: keep_alive_ms, keepAliveMaxTimeout: keep_alive_ms }),
    connect: { timeout: connect_timeout_ms, ...(lookup !== undefined && { lookup }) },
  });
  return {
    exchange: (exchange: Exchange): Promise<Answer> => runExchange(exchange, { agent, pace }),
    /** A stream whose reader bounds it, such as `readEvents`. */
    openStream: (url: string, init: StreamOpening): Promise<OpenedStream> =>
      openStream(url, { ...init, agent }),
    /** Drops all connections; exchanges in flight fail. */
    close: async (): Promise<void> => {
      await agent.destroy();
      await Promise.all([...pools].map((pool) => pool.destroy()));
    },
  };
}

/** An agent forgets a pool that it holds for unused, though an exchange may be on the way through it. */
function keepPools() {
  const pools = new Set<Pool>();
  const factory = (origin: string | URL, options: Pool.Options): Pool => {
    for (const pool of pools) if (pool.destroyed) pools.delete(pool);
    const pool = new (undici().Pool)(origin, options);
    pools.add(pool);
    return pool;
  };
  return { pools, factory };
}

async function runExchange(
  { timeout_ms, signal, max_bytes, share, ...sent }: Exchange,
  { agent, pace }: { agent: Agent; pace: Pace | undefined },
): Promise<Answer> {
  return await withController(signal, async (controller) => {
    const timer = setTimeout(() => {
      const within = timeout_ms < 1000 ? `${timeout_ms} ms` : `${timeout_ms / 1000} s`;
      const message = `no answer within ${within}`;
      controller.abort(new HttpFailure(message, { kind: 'late' }));
    }, timeout_ms);
    try {
      const response = await open({ ...sent, signal: controller.signal }, agent);
      const { status, header, told } = response;
      const limits = { told, max_bytes, share, controller, pace };
      const text = isGood(status)
        ? withoutSecrets(await wholeText(response.body(), limits))
        : await refusalText(response, sent.url);
      controller.signal.throwIfAborted();
      return { status, text, header, set_cookies: response.set_cookies };
    } catch (error) {
      controller.signal.throwIfAborted();
      throw brokenBy(error);
    } finally {
      clearTimeout(timer);
    }
  });
}

async function openStream(
  url: string,
  { method, headers, body, signal, agent }: StreamOpening & { agent: Agent },
): Promise<OpenedStream> {
  const sent = { method: method as Exchange['method'], url, headers: Object.fromEntries(headers) };
  const response = await open({ ...sent, body, signal }, agent);
  const { status, header } = response;
  if (isGood(status)) return { body: response.body() };
  const text = await refusalText(response, url);
  signal.throwIfAborted();
  return { refusal: { status, text, header } };
}

interface Opened {
  status: number;
  header: Answer['header'];
  set_cookies: string[];
  /** Bytes that the headers announce, or NaN. */
  told: number;
  /** Decoded. Throws if it cannot be decoded. */
  body: () => Readable;
}

async function open(
  { url, headers, ...sent }: Pick<Exchange, 'method' | 'url' | 'headers' | 'body' | 'signal'>,
  dispatcher: Agent,
): Promise<Opened> {
  const response = await undici()
    .request(url, {
      ...sent,
      body: sent.body ?? null,
      // The request asks for no encoding. If the body is encoded anyway, it is decoded and counted after that.
      headers: { 'accept-encoding': 'identity', ...headers },
      dispatcher,
    })
    .catch(async (error: unknown) => {
      throw sent.signal.aborted ? error : await explained(error, url);
    });
  const header = (name: string): string | null => [response.headers[name]].flat()[0] ?? null;
  const encoding = header('content-encoding');
  return {
    status: response.statusCode,
    header,
    set_cookies: [response.headers['set-cookie'] ?? []].flat(),
    told: encoding === null ? Number(header('content-length') ?? Number.NaN) : Number.NaN,
    body: () => decoded(response.body, encoding),
  };
}

const isGood = (status: number): boolean => status >= 200 && status < 300;
const isRedirect = (status: number): boolean => status >= 300 && status < 400;

async function refusalText({ status, header, body }: Opened, url: string): Promise<string> {
  if (isRedirect(status)) {
    body().destroy();
    return `a redirect to ${targetOf(header('location'), url)}: redirects are not followed`;
  }
  const { text, isWhole } = await errorText(body());
  return isWhole ? withoutSecrets(text) : withoutSecretsIfCut(text);
}

/** The host alone: path and query may be private to it. Of the host that was asked, also scheme and path. */
function targetOf(location: string | null, url: string): string {
  if (location === null || !URL.canParse(location, url)) return 'an unknown place';
  const [asked, target] = [new URL(url), new URL(location, url)];
  const isSame =
    target.host === asked.host ||
    (target.hostname === asked.hostname && target.protocol !== asked.protocol);
  const named = isSame ? `${target.protocol}//${target.host}${target.pathname}` : target.host;
  return withoutSecrets(shortened(named, 200));
}
