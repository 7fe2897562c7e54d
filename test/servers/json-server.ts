import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Exchange {
  /** `POST /step` */
  route: string;
  headers: IncomingHttpHeaders;
  header: (name: string) => string | undefined;
  /** Parsed JSON; null without a body. */
  body: unknown;
  response: ServerResponse;
}

export interface JsonServer {
  /** `http://127.0.0.1:<port>` */
  url: string;
  /** Open connections are cut. */
  close: () => Promise<void>;
}

/** A server on a free port of 127.0.0.1. Errors of `answer` go to `onError`, which must end the response. */
export async function startJsonServer(
  answer: (exchange: Exchange) => Promise<void> | void,
  onError: (error: unknown, exchange: Exchange) => void,
): Promise<JsonServer> {
  const server = createServer((request, response) => {
    void readExchange(request, response).then(
      async (exchange) => {
        try {
          await answer(exchange);
        } catch (error) {
          onError(error, exchange);
        }
      },
      () => response.destroy(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function readExchange(request: IncomingMessage, response: ServerResponse): Promise<Exchange> {
  const body = await text(request);
  const header = (name: string): string | undefined => [request.headers[name]].flat()[0];
  return {
    route: `${request.method ?? ''} ${request.url ?? ''}`,
    headers: request.headers,
    header,
    body: body === '' ? null : (JSON.parse(body) as unknown),
    response,
  };
}

export function sendJson(
  response: ServerResponse,
  { status = 200, body }: { status?: number; body: unknown },
): void {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.length,
  });
  response.end(bytes);
}
