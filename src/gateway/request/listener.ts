import { once } from 'node:events';
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { watchSocket } from '../deliver/delivery.js';
import { openaiError } from './refusals.js';

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** The client waits for leave to send its body. */
  expects: boolean;
}
export type Answer = (exchange: Exchange) => void;

/** Agents' tools take minutes; a connection that closes meanwhile is met by the next request. */
const KEEP_ALIVE_MS = 600_000;
const HEADERS_MS = 20_000;
const MOST_HEADER_BYTES = 32 * 1024;

/** Connections of one door at a time: those who open it may hold any number. */
const MOST_CONNECTIONS = 256;

/** Answers connections to a listener that its owner closes. Returns a function that cuts all connections. */
export function answerDoor(door: Server, answer: Answer): () => void {
  const server = createHttpServer(answer);
  const open = new Set<Socket>();
  const connected = (socket: Socket): void => {
    if (open.size >= MOST_CONNECTIONS) {
      socket.destroy();
      return;
    }
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    socket.setNoDelay(true);
    server.emit('connection', socket);
  };
  door.on('connection', connected);
  return () => {
    door.off('connection', connected);
    door.on('connection', cut);
    for (const socket of open) socket.destroy();
  };
}

const cut = (socket: Socket): void => {
  socket.destroy();
};

export async function openListener(listen: string, answer: Answer) {
  const server = createHttpServer(answer);
  const { host, port } = placeOf(listen);
  server.listen(port, host);
  await once(server, 'listening');
  const { port: own } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${own}`,
    close: async (): Promise<void> => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function createHttpServer(answer: Answer): HttpServer {
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: HEADERS_MS,
    // Bodies have a limit by their size: body.ts.
    requestTimeout: 0,
    connectionsCheckingInterval: HEADERS_MS / 4,
    maxHeaderSize: MOST_HEADER_BYTES,
    // Its answer would have no words.
    requireHostHeader: false,
    keepAlive: true,
    noDelay: true,
  });
  // Node would drop headers beyond a count, perhaps the key. Their size is bounded anyway.
  server.maxHeadersCount = 0;
  const last = new WeakMap<Duplex, Exchange>();
  const take = (exchange: Exchange): void => {
    last.set(exchange.request.socket, exchange);
    answer(exchange);
  };
  server.on('connection', watchSocket);
  server.on('request', (request, response) => {
    take({ request, response, expects: false });
  });
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    take({ request, response, expects: true });
  });
  // Other expectations may be ignored (RFC 9110).
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    take({ request, response, expects: false });
  });
  server.on('connect', (_: IncomingMessage, socket: Duplex) => {
    noRequest(new Error('CONNECT: this is no proxy'), socket);
  });
  server.on('clientError', (error: Error, socket: Duplex) => {
    behind(last.get(socket), {
      socket,
      then: () => {
        noRequest(error, socket);
      },
    });
  });
  return server;
}

/** Bytes behind a whole request wait for its answer; then the connection ends without another one. */
function behind(
  exchange: Exchange | undefined,
  { socket, then }: { socket: Duplex; then: () => void },
): void {
  if (exchange?.request.complete !== true || exchange.response.writableFinished) then();
  else exchange.response.once('close', () => socket.end());
}

/** Bytes that are no request have no response either. */
function noRequest(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const isLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const status = isLarge ? '431 Request Header Fields Too Large' : '400 Bad Request';
  const message = `expected a request of HTTP/1.1 with headers of at most ${MOST_HEADER_BYTES} bytes: ${error.message}`;
  const body = JSON.stringify(openaiError({ status: 400, code: 'invalid_http', message }));
  const type = 'content-type: application/json; charset=utf-8';
  const length = `content-length: ${Buffer.byteLength(body)}`;
  socket.end(`HTTP/1.1 ${status}\r\n${type}\r\n${length}\r\nconnection: close\r\n\r\n${body}`);
}

function placeOf(listen: string): { host: string; port: number } {
  const at = listen.lastIndexOf(':');
  const host = listen.slice(0, Math.max(0, at)).replace(/^\[|\]$/g, '');
  const port = Number(listen.slice(at + 1));
  if (at > 0 && host !== '' && Number.isInteger(port) && port >= 0 && port < 65_536)
    return { host, port };
  throw new Error(`listen: expected host:port, as in 127.0.0.1:0, got ${JSON.stringify(listen)}`);
}
