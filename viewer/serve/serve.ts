import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Fault } from '../../src/model/faults.js';
import { describeError } from '../../src/platform/errors.js';
import type { RunStore } from '../read/runs.js';
import type { Bundle } from '../shell.js';
import { notice } from '../shell.js';
import { answer } from './answers.js';
import type { Door, Verdict } from './guard.js';
import { cookieOf, judge } from './guard.js';
import { createRoutes } from './routes.js';

/** The page on this machine alone, of what a store has. Nothing is changed, and Temporal is not asked. */

export interface Viewer {
  /** Of the page, without the token. */
  url: string;
  close: () => Promise<void>;
}

export interface ViewerOptions {
  store: RunStore;
  bundle: Bundle;
  token: string;
  /** 0: any free one. */
  port: number;
}

export async function startViewer({ store, bundle, token, port }: ViewerOptions): Promise<Viewer> {
  const server = createServer();
  await listen(server, port);
  const door: Door = { port: (server.address() as AddressInfo).port, token };
  const routes = createRoutes({ store, bundle });
  server.on('request', (request, response) => {
    void handle({ request, response }, { door, routes });
  });
  return {
    url: `http://127.0.0.1:${door.port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}

const listen = (server: Server, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });

async function handle(
  { request, response }: { request: IncomingMessage; response: ServerResponse },
  { door, routes }: { door: Door; routes: ReturnType<typeof createRoutes> },
): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => {
    gone.abort();
  });
  const to = { response, is_head: request.method === 'HEAD', signal: gone.signal };
  try {
    const url = new URL(`http://127.0.0.1:${door.port}${request.url ?? ''}`);
    const verdict = judge(request, { url, door });
    if (verdict.kind === 'refused') refuse(to, verdict);
    else if (verdict.kind === 'token')
      answer(to, {
        status: 303,
        type: 'html',
        body: '',
        more: { location: '/', 'set-cookie': cookieOf(door) },
      });
    else await routes(url, to);
  } catch (error) {
    fail(to, error);
  }
}

const WHERE =
  'Whoever started the server has the whole address, with its token: temporal-rollout serve and npm start print it, and temporal-rollout up --lines prints it again. Open it once; this browser then remembers it for a month.';

function refuse(
  to: Parameters<typeof answer>[0],
  { status, why }: Extract<Verdict, { kind: 'refused' }>,
): void {
  const text = status === 401 ? `${why}. ${WHERE}` : why;
  const more = status === 405 ? { allow: 'GET, HEAD' } : {};
  answer(to, {
    status,
    type: 'html',
    body: notice(status === 401 ? 'The rollouts are behind a token' : 'Rollouts', text),
    more,
  });
}

/** What is no URL, or is escaped wrongly. */
const isOfPath = (error: unknown): boolean =>
  error instanceof URIError || (error instanceof TypeError && 'code' in error);

/** Errors have no secrets in their texts. */
function fail(
  { response, ...to }: { response: ServerResponse; is_head: boolean },
  error: unknown,
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const status = isOfPath(error) ? 400 : error instanceof Fault ? 503 : 500;
  answer({ response, ...to }, { status, type: 'text', body: describeError(error) });
}
