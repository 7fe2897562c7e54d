import type { Bodies } from './body.js';
import { bytesOf } from './body.js';
import { askedAgain } from '../deliver/delivery.js';
import type { Sessions } from './sessions.js';
import { NAME } from './sessions.js';
import type { Keyed } from './key.js';
import { keyIn } from './key.js';
import type { Answer, Exchange } from './listener.js';
import { gatewayFailed } from '../play/patience.js';
import type { Refusal } from './refusals.js';
import { openaiError, Refused } from './refusals.js';
import type { RequestReader } from './request-reader.js';
import { sendElsewhere, sendJson, sendRefusal } from './reply.js';
import type { Life } from '../life.js';
import { attach } from '../match/attach.js';
import type { Dialect } from '../dialects/dialect.js';
import { ofGym } from '../dialects/gym.js';
import { dialectAt, DIALECTS } from '../dialects/dialects.js';
import { kwargsOf, UNSUPPORTED } from '../dialects/shaping.js';
import { give } from '../deliver/stream.js';
import type { GatewayTimes } from '../times.js';

/** Which request gets what: from its path and key to who answers it. */

export interface Routing {
  sessions: Pick<Sessions, 'answererOf' | 'here'>;
  bodies: Bodies;
  requests: RequestReader;
  times: GatewayTimes;
}

export function createRoutes(routing: Routing): Answer {
  return (exchange) => {
    const { request, response } = exchange;
    askedAgain(request.socket);
    response.on('error', () => undefined);
    const asked = askedOf(request);
    const dialect = asked.dialect ?? NO_DIALECT;
    route({ ...exchange, ...asked }, routing).catch((error: unknown) => {
      if (error instanceof Refused) refuse(exchange, { refusal: error.refusal, dialect });
      else if (request.socket.destroyed || response.headersSent) response.destroy();
      else refuse(exchange, { refusal: gatewayFailed(error), dialect });
    });
  };
}

/** `dialect`: of a call; null: it is none. */
type Asked = Keyed & { dialect: Dialect | null };

function askedOf({ method, url = '/', headers }: Exchange['request']): Asked {
  const keyed = keyIn(pathOf(url), headers);
  const dialect = method === 'POST' ? dialectAt(keyed.path) : null;
  return { ...keyed, dialect: dialect && keyed.of_gym ? ofGym(dialect) : dialect };
}

const NO_DIALECT = { refusal: openaiError };

/** Reads what a client still sends, for a moment: who meets a reset reads no answer. */
function refuse(
  { request, response }: Exchange,
  refused: { refusal: Refusal; dialect: Pick<Dialect, 'refusal'> },
): void {
  sendRefusal(response, refused);
  if (!request.complete) request.resume();
}

async function route(
  { key, path, of_gym, dialect, ...exchange }: Exchange & Asked,
  { sessions, ...answering }: Routing,
): Promise<void> {
  const { request, response } = exchange;
  const { method: said = '', url = '/' } = request;
  const method = said === 'HEAD' ? 'GET' : said;
  const named = `${method} ${path}`;
  if (named === 'GET /') {
    response.writeHead(200, { ...NAME, 'content-length': 0 }).end();
    return;
  }
  if (dialect === null && named !== 'GET /v1/models') {
    const refusal = noRoute(`${said} ${path}`);
    sessions.here(key)?.standing.misfits(refusal.message);
    throw new Refused(refusal);
  }
  const gone = new AbortController();
  response.once('close', () => {
    gone.abort(new Error('the client has gone'));
  });
  const answerer = await sessions.answererOf(key, {
    ms: answering.times.parked_ms,
    signal: gone.signal,
  });
  if ('status' in answerer) throw new Refused(answerer);
  if ('elsewhere' in answerer) {
    const [, query] = url.split('?');
    const asked = query === undefined ? path : `${path}?${query}`;
    const place = of_gym ? 'ng-rollout' : 'k';
    sendElsewhere(response, `${answerer.elsewhere}/${place}/${key ?? ''}${asked}`);
    if (!request.complete) request.resume();
  } else if (dialect === null) sendJson(response, models(answerer));
  else await call(exchange, { life: answerer, ...answering, dialect, gone: gone.signal });
}

/** Clients that take this for a proxy send a whole address. */
const pathOf = (url: string): string => url.replace(/^https?:\/\/[^/?]*/i, '').split('?')[0] || '/';

const noRoute = (named: string): Refusal => ({
  status: 404,
  code: 'unknown_url',
  message: `unknown request URL: ${named.slice(0, 200)}: expected ${Object.keys(DIALECTS)
    .map((name) => `POST /v1/${name}`)
    .join(', ')} or GET /v1/models`,
});

const models = ({ playing }: Life): object => ({
  object: 'list',
  data: [{ id: playing.generation().model, object: 'model', created: 0, owned_by: 'policy' }],
});

type Call = Omit<Routing, 'sessions'> & { life: Life; dialect: Dialect; gone: AbortSignal };

async function call(
  { request, response, expects }: Exchange,
  { life, dialect, bodies, requests, times, gone }: Call,
): Promise<void> {
  const { playing, standing } = life;
  const { limits, structured, role_map } = playing.settings;
  const body = bodies.open(life);
  const ready = (): void => {
    if (expects) response.writeContinue();
  };
  try {
    const bounds = { most: limits.body, patience_ms: times.body_ms };
    const bytes = await bytesOf(request, { ...bounds, body, ready });
    const kwargs = kwargsOf(playing.generation().generation.chat_template_kwargs);
    const reading = { dialect, limits: { structured, role_map, kwargs } };
    const asked = await body.inTurn(() => requests.read(bytes, reading));
    const named = request.headers['idempotency-key'];
    const attached = await attach(life, {
      request: asked,
      idempotency_key: typeof named === 'string' && named !== '' ? named.slice(0, 256) : null,
      is_retry: Number(request.headers['x-stainless-retry-count'] ?? 0) > 0,
      gone,
      release: body.close,
    });
    if ('status' in attached) {
      sendRefusal(response, { refusal: attached, dialect, asked });
      return;
    }
    await give({ request, response, attached, dialect, life, times }, asked);
  } catch (error) {
    if (error instanceof Refused && error.refusal.code === UNSUPPORTED)
      standing.misfits(error.message);
    throw error;
  } finally {
    body.close();
  }
}
