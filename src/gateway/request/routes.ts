import type { Bodies, Body } from './bodies.js';
import { bytesOf } from './body.js';
import { askedAgain } from '../deliver/delivery.js';
import type { Sessions } from './sessions.js';
import { keyIn } from './key.js';
import type { Answer, Exchange } from './listener.js';
import { NAME } from './neighbours.js';
import { gatewayFailed } from '../play/patience.js';
import type { Refusal } from './refusals.js';
import { Refused } from './refusals.js';
import type { RequestReader } from './request-reader.js';
import { sendElsewhere, sendJson, sendRefusal } from './reply.js';
import type { Session } from '../session.js';
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
    route(exchange, routing).catch((error: unknown) => {
      if (error instanceof Refused) refuse({ request, response }, error.refusal);
      else if (request.socket.destroyed || response.headersSent) response.destroy();
      else refuse({ request, response }, gatewayFailed(error));
    });
  };
}

/** Reads what a client still sends, for a moment: who meets a reset reads no answer. */
function refuse({ request, response }: Omit<Exchange, 'expects'>, refusal: Refusal): void {
  sendRefusal(response, refusal);
  if (!request.complete) request.resume();
}

async function route(exchange: Exchange, { sessions, ...answering }: Routing): Promise<void> {
  const { request, response } = exchange;
  const { method: said = '', url = '/' } = request;
  const { key, path } = keyIn(pathOf(url), request.headers);
  const method = said === 'HEAD' ? 'GET' : said;
  const named = `${method} ${path}`;
  if (named === 'GET /') {
    response.writeHead(200, { ...NAME, 'content-length': 0 }).end();
    return;
  }
  const isChat = named === 'POST /v1/chat/completions';
  if (!isChat && named !== 'GET /v1/models') {
    const refusal = noRoute(`${said} ${path}`);
    sessions.here(key)?.misfits(refusal);
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
    sendElsewhere(response, `${answerer.elsewhere}/k/${key ?? ''}${asked}`);
    if (!request.complete) request.resume();
  } else if (isChat) await chat(exchange, { session: answerer, ...answering, gone: gone.signal });
  else sendJson(response, models(answerer));
}

/** Clients that take this for a proxy send a whole address. */
const pathOf = (url: string): string => url.replace(/^https?:\/\/[^/?]*/i, '').split('?')[0] || '/';

const noRoute = (named: string): Refusal => ({
  status: 404,
  code: 'unknown_url',
  message: `unknown request URL: ${named.slice(0, 200)}: expected POST /v1/chat/completions or GET /v1/models`,
});

const models = ({ playing }: Session): object => ({
  object: 'list',
  data: [{ id: playing.generation().model, object: 'model', created: 0, owned_by: 'policy' }],
});

type Chat = Omit<Routing, 'sessions'> & { session: Session; gone: AbortSignal };

async function chat(exchange: Exchange, { bodies, ...chatting }: Chat): Promise<void> {
  const body = bodies.open(chatting.session);
  try {
    await answered(exchange, { ...chatting, body });
  } catch (error) {
    if (error instanceof Refused && error.refusal.code === UNSUPPORTED)
      chatting.session.misfits(error.refusal);
    throw error;
  } finally {
    body.close();
  }
}

async function answered(
  { request, response, expects }: Exchange,
  { session, body, requests, times, gone }: Omit<Chat, 'bodies'> & { body: Body },
): Promise<void> {
  const { playing, ending } = session;
  const { settings, journal, rollout_id } = playing;
  const { limits, structured, role_map } = settings;
  const most = limits.body;
  const ready = (): void => {
    if (expects) response.writeContinue();
  };
  const bytes = await bytesOf(request, { most, patience_ms: times.body_ms, body, ready });
  const kwargs = kwargsOf(playing.generation().generation.chat_template_kwargs);
  const reading = { body: most, structured, role_map, kwargs };
  const asked = await body.inTurn(() => requests.read(bytes, reading));
  const named = request.headers['idempotency-key'];
  const idempotency_key = typeof named === 'string' && named !== '' ? named.slice(0, 256) : null;
  const is_retry = Number(request.headers['x-stainless-retry-count'] ?? 0) > 0;
  const release = body.close;
  const attached = await session.attach({
    ...{ request: asked, idempotency_key, is_retry, gone, release },
  });
  if ('status' in attached) throw new Refused(attached);
  const giving = { request, response, attached, rollout_id, ending };
  const { trajectory, stored } = journal;
  await give({ ...giving, trajectory, stored, times }, asked);
}
