import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';

export interface Received {
  method: string | undefined;
  url: string | undefined;
  headers: http.IncomingHttpHeaders;
  /** Parsed; null without a body. */
  body: unknown;
}

export type Handler = (request: Received, response: http.ServerResponse) => void;

export interface LoopbackServer {
  url: string;
  received: Received[];
  /** How many connections it has accepted, and how many of them are open. */
  connections: { accepted: number; open: number };
}

/** A server on loopback that records what it received; closed when the suite (or test) that started it ends. */
export async function startServer(handler: Handler): Promise<LoopbackServer> {
  const received: Received[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const { method, url, headers } = request;
      const body = text === '' ? null : (JSON.parse(text) as unknown);
      received.push({ method, url, headers, body });
      handler({ method, url, headers, body }, response);
    });
  });
  const connections = { accepted: 0, open: 0 };
  server.on('connection', (socket) => {
    connections.accepted += 1;
    connections.open += 1;
    socket.on('close', () => (connections.open -= 1));
  });
  // For longer than a client keeps a connection.
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, received, connections };
}

/** Answers with a status and JSON; a string is sent as it is. */
export function answer(status: number, body: unknown): Handler {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
}
