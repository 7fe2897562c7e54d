import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Passes requests on to an engine. What its answer becomes is for whoever asks for one. */
export interface PassingProxy {
  base_url: string;
  close: () => Promise<void>;
}

export interface Passed {
  url: string;
  type: string;
  /** Its head is written. */
  response: ServerResponse;
}

const OF_THE_CONNECTION = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'expect',
]);

/** `target`: the engine's base URL, with `/v1`. A `pass` that throws resets the connection; otherwise it is ended. */
export async function startPassingProxy(
  target: string,
  pass: (body: AsyncIterable<Uint8Array>, passed: Passed) => Promise<void>,
): Promise<PassingProxy> {
  const { origin } = new URL(target);
  const server = createServer((request, response) => {
    const cut = new AbortController();
    response.on('close', () => {
      cut.abort();
    });
    void (async () => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const { method = 'GET', url = '/', headers } = request;
      const passed = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
      const answer = await fetch(`${origin}${url}`, {
        method,
        headers: Object.fromEntries(passed) as Record<string, string>,
        ...(method === 'POST' && { body: Buffer.concat(parts) }),
        signal: cut.signal,
      });
      const type = answer.headers.get('content-type') ?? 'application/json';
      response.writeHead(answer.status, { 'content-type': type });
      await pass((answer.body ?? []) as AsyncIterable<Uint8Array>, { url, type, response });
      response.end();
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
}
